#include "tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/keys.h"
#include "tokenizer/space_mark.h"

namespace tempo9::tokenizer {
namespace {

constexpr auto kOtherEndKeys =
    std::to_array<std::string_view>({kEotKey, kEomKey, kFimPadKey, kFimRepositoryKey, kFimSeparatorKey});

// Empty where the key is absent.
Result<std::span<const std::string>> find_strings(const gguf::Metadata& metadata, std::string_view key) {
  if (!metadata.contains(key)) return std::span<const std::string>();
  return metadata.read_strings(key);
}

TokenType type_from_file(int64_t value) {
  return value >= 0 && value <= static_cast<int64_t>(TokenType::kByte) ? static_cast<TokenType>(value)
                                                                       : TokenType::kUndefined;
}

// The byte that "<0x0A>" stands for.
std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  int value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9') {
      value = value * 16 + (c - '0');
    } else if (c >= 'A' && c <= 'F') {
      value = value * 16 + (c - 'A' + 10);
    } else {
      return std::nullopt;
    }
  }
  return static_cast<uint8_t>(value);
}

std::string piece_of(std::string_view text, TokenType type, VocabularyDefaults::TextForm form) {
  switch (type) {
    case TokenType::kNormal:
      return form == VocabularyDefaults::TextForm::kByteAlphabet ? alphabet_to_bytes_or_text(text)
                                                                 : spaces_for_marks(text);
    case TokenType::kByte: {
      const std::optional<uint8_t> byte = parse_byte_token(text);
      return byte ? std::string(1, static_cast<char>(*byte)) : std::string();
    }
    case TokenType::kUserDefined:
    case TokenType::kControl:
    case TokenType::kUnknown:
      return std::string(text);
    case TokenType::kUnused:
    case TokenType::kUndefined:
      return {};
  }
  return {};
}

}  // namespace

Result<Vocabulary> Vocabulary::read(const gguf::Metadata& metadata, const VocabularyDefaults& defaults) {
  Vocabulary vocabulary;
  T9_TRY_VOID(vocabulary.read_texts(metadata));
  T9_TRY_VOID(vocabulary.read_types(metadata, defaults.text_form));
  T9_TRY(ids, vocabulary.index_texts());
  T9_TRY(merges, find_strings(metadata, kMergesKey));
  NamedTokens named(ids, vocabulary.types_, merges);
  named.correct_types();
  vocabulary.note_types();
  T9_TRY_VOID(vocabulary.read_special_ids(metadata, defaults));
  T9_TRY_VOID(vocabulary.read_ends(metadata, named));
  T9_TRY_VOID(vocabulary.read_suppressed(metadata));
  vocabulary.build_pieces(defaults.text_form);
  return vocabulary;
}

bool Vocabulary::is_mergeable(int32_t id) const {
  switch (type(id)) {
    case TokenType::kNormal:
    case TokenType::kUnused:
      return true;
    case TokenType::kUserDefined:
      return !is_structural_[static_cast<size_t>(id)];
    default:
      return false;
  }
}

std::optional<int32_t> Vocabulary::byte_token(uint8_t byte) const {
  return byte_tokens_[byte] < 0 ? std::nullopt : std::optional(byte_tokens_[byte]);
}

Result<void> Vocabulary::read_texts(const gguf::Metadata& metadata) {
  T9_TRY(texts, metadata.read_strings(kTokensKey));
  if (texts.empty()) return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: empty", kTokensKey));
  if (texts.size() > INT32_MAX) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: {} tokens are too many", kTokensKey, texts.size()));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    texts_.append(texts[i].empty() ? fmt::format("[EMPTY_{}]", i) : texts[i]);
  }
  types_.assign(texts.size(), TokenType::kNormal);
  return {};
}

Result<void> Vocabulary::read_types(const gguf::Metadata& metadata, VocabularyDefaults::TextForm form) {
  if (metadata.contains(kTypesKey)) {
    T9_TRY(stored, metadata.read_ints(kTypesKey));
    if (stored.size() != types_.size()) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("metadata {}: {} types for {} tokens", kTypesKey, stored.size(), types_.size()));
    }
    std::ranges::transform(stored, types_.begin(), type_from_file);
  } else if (form == VocabularyDefaults::TextForm::kSpaceMarks) {
    for (int32_t id = 0; id < size(); ++id) {
      if (parse_byte_token(text(id))) types_[static_cast<size_t>(id)] = TokenType::kByte;
    }
  }
  return {};
}

Result<TextTable> Vocabulary::index_texts() const {
  TextTable ids(types_.size());
  for (int32_t id = 0; id < size(); ++id) {
    if (!ids.insert(text(id), id)) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("metadata {}: tokens {} and {} have the same text", kTokensKey, ids.find(text(id)), id));
    }
  }
  return ids;
}

void Vocabulary::note_types() {
  byte_tokens_.fill(-1);
  is_structural_.assign(types_.size(), false);
  for (int32_t id = 0; id < size(); ++id) {
    is_structural_[static_cast<size_t>(id)] = type(id) == TokenType::kUserDefined && is_structural(text(id));
    if (type(id) != TokenType::kByte) continue;
    if (const std::optional<uint8_t> byte = parse_byte_token(text(id))) byte_tokens_[*byte] = id;
  }
}

Result<void> Vocabulary::read_ends(const gguf::Metadata& metadata, const NamedTokens& named) {
  is_end_.assign(types_.size(), false);
  const auto set = [&](int32_t id, bool value) { is_end_[static_cast<size_t>(id)] = value; };
  for (const int32_t id : named.ends_of_generation()) set(id, true);
  if (eos_) set(*eos_, true);
  T9_TRY(eos_list, read_ids(metadata, kEosListKey));
  for (const int32_t id : eos_list) set(id, true);
  for (const std::string_view key : kOtherEndKeys) {
    T9_TRY(id, read_id(metadata, key));
    if (id) set(*id, true);
  }
  for (const int32_t id : named.exceptions()) set(id, false);
  return {};
}

Result<void> Vocabulary::read_special_ids(const gguf::Metadata& metadata, const VocabularyDefaults& defaults) {
  T9_TRY(bos, read_id(metadata, kBosKey, defaults.bos));
  T9_TRY(eos, read_id(metadata, kEosKey, defaults.eos));
  T9_TRY(unknown, read_id(metadata, kUnknownKey, defaults.unknown));
  T9_TRY(adds_bos, metadata.find_bool(kAddBosKey));
  T9_TRY(adds_eos, metadata.find_bool(kAddEosKey));
  T9_TRY(adds_space_prefix, metadata.find_bool(kAddSpacePrefixKey));
  bos_ = bos;
  eos_ = eos;
  if (unknown && type(*unknown) != TokenType::kControl) unknown_ = unknown;
  adds_bos_ = defaults.adds_bos_always || adds_bos.value_or(defaults.adds_bos);
  adds_eos_ = adds_eos.value_or(defaults.adds_eos);
  adds_space_prefix_ = adds_space_prefix.value_or(defaults.adds_space_prefix);
  if (adds_bos_ && !bos_) {
    warnings_.push_back("a BOS token is to be added and the vocabulary names none: none is added");
    adds_bos_ = false;
  }
  if (adds_eos_ && !eos_) {
    warnings_.push_back("an EOS token is to be added and the vocabulary names none: none is added");
    adds_eos_ = false;
  }
  return {};
}

Result<void> Vocabulary::read_suppressed(const gguf::Metadata& metadata) {
  T9_TRY(ids, read_ids(metadata, kSuppressKey));
  std::vector<bool> is_suppressed(types_.size(), false);
  for (const int32_t id : ids) is_suppressed[static_cast<size_t>(id)] = true;
  bool an_end_is_left = false;
  for (size_t id = 0; id < is_end_.size(); ++id) an_end_is_left |= is_end_[id] && !is_suppressed[id];
  const bool keeps_ends =
      !an_end_is_left && std::ranges::any_of(ids, [&](int32_t id) { return is_end_of_generation(id); });
  if (keeps_ends) {
    warnings_.push_back(fmt::format("metadata {}: covers every end-of-generation token: those stay", kSuppressKey));
  }
  for (int32_t id = 0; id < size(); ++id) {
    const bool stays = keeps_ends && is_end_of_generation(id);
    if (is_suppressed[static_cast<size_t>(id)] && !stays) suppressed_.push_back(id);
  }
  return {};
}

Result<std::optional<int32_t>> Vocabulary::read_id(const gguf::Metadata& metadata, std::string_view key,
                                                   std::optional<int32_t> fallback) {
  T9_TRY(stored, metadata.find_int(key));
  if (!stored) return fallback && contains(*fallback) ? fallback : std::nullopt;
  if (contains(*stored)) return static_cast<int32_t>(*stored);
  warnings_.push_back(
      fmt::format("metadata {}: {} is outside the vocabulary of {} tokens: ignored", key, *stored, size()));
  return std::nullopt;
}

Result<std::vector<int32_t>> Vocabulary::read_ids(const gguf::Metadata& metadata, std::string_view key) {
  if (!metadata.contains(key)) return std::vector<int32_t>();
  T9_TRY(stored, metadata.read_ints(key));
  std::vector<int32_t> ids;
  for (const int64_t id : stored) {
    if (contains(id)) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

void Vocabulary::build_pieces(VocabularyDefaults::TextForm form) {
  for (int32_t id = 0; id < size(); ++id) pieces_.append(piece_of(text(id), type(id), form));
}

}  // namespace tempo9::tokenizer
