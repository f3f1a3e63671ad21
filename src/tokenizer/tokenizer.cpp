#include "tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/fragment_encoder.h"
#include "tokenizer/keys.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/special_splitter.h"
#include "tokenizer/token_sink.h"
#include "tokenizer/vocabulary.h"

namespace tempo9::tokenizer {
namespace {

constexpr std::string_view kByteLevelModel = "gpt2";
constexpr std::string_view kSentencePieceModel = "llama";
constexpr std::string_view kGemma4Model = "gemma4";

// Keeps 32-bit positions valid: a space grows to three bytes in SentencePiece.
constexpr size_t kMaxTextBytes = size_t{1} << 30;

// Well-formed text and, in its bytes, the ranges where special tokens may match.
struct Sanitized {
  std::string text;
  std::vector<ByteRange> ranges;
};

// Characters that a range border cuts through are not in the range.
Sanitized sanitize(std::string_view bytes, std::span<const ByteRange> ranges) {
  Sanitized out;
  out.text.reserve(bytes.size());
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t begin = pos;
    const size_t out_begin = out.text.size();
    append_utf8(out.text, decode_utf8(bytes, pos));
    while (!ranges.empty() && ranges.front().end <= begin) ranges = ranges.subspan(1);
    if (ranges.empty() || begin < ranges.front().begin || pos > ranges.front().end) continue;
    const bool continues = begin > ranges.front().begin && !out.ranges.empty() && out.ranges.back().end == out_begin;
    if (continues) {
      out.ranges.back().end = out.text.size();
    } else {
      out.ranges.push_back({out_begin, out.text.size()});
    }
  }
  return out;
}

void check_ranges(std::span<const ByteRange> ranges, size_t text_size) {
  size_t end = 0;
  for (const ByteRange& range : ranges) {
    T9_CHECK_MSG(end <= range.begin && range.begin <= range.end && range.end <= text_size,
                 fmt::format("range {} to {} after {}, of {}", range.begin, range.end, end, text_size));
    end = range.end;
  }
}

class GgufTokenizer final : public Tokenizer {
 public:
  // `vocabulary` is the one that `encoder` refers to.
  GgufTokenizer(std::unique_ptr<const Vocabulary> vocabulary, std::unique_ptr<FragmentEncoder> encoder,
                std::string description, std::vector<std::string> warnings)
      : vocabulary_(std::move(vocabulary)),
        encoder_(std::move(encoder)),
        splitter_(*vocabulary_),
        description_(std::move(description)),
        warnings_(std::move(warnings)) {}

  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options) const override {
    if (text.size() > kMaxTextBytes) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("text of {} bytes: the limit is {}", text.size(), kMaxTextBytes));
    }
    const auto ranges = options.special_allowed.value_or(std::span<const ByteRange>());
    check_ranges(ranges, text.size());
    if (is_valid_utf8(text)) return encode_well_formed(text, ranges, options);
    const Sanitized sanitized = sanitize(text, ranges);
    return encode_well_formed(sanitized.text, sanitized.ranges, options);
  }

  int64_t n_tokens() const override { return vocabulary_->size(); }
  std::string_view piece(int32_t id, bool special) const override {
    if (!vocabulary_->contains(id) || (vocabulary_->is_hidden(id) && !special)) return {};
    return vocabulary_->piece(id);
  }
  std::string_view token_text(int32_t id) const override {
    return vocabulary_->contains(id) ? vocabulary_->text(id) : std::string_view();
  }
  TokenType type(int32_t id) const override {
    return vocabulary_->contains(id) ? vocabulary_->type(id) : TokenType::kUndefined;
  }

  std::string decode(std::span<const int32_t> ids, bool special) const override {
    std::string text;
    bool strips_space = vocabulary_->adds_space_prefix();
    for (const int32_t id : ids) {
      std::string_view bytes = piece(id, special);
      if (strips_space && id != vocabulary_->bos()) {
        strips_space = false;
        if (bytes.starts_with(' ')) bytes.remove_prefix(1);
      }
      text += bytes;
    }
    return text;
  }

  std::optional<int32_t> bos() const override { return vocabulary_->bos(); }
  std::optional<int32_t> eos() const override { return vocabulary_->eos(); }
  bool adds_bos() const override { return vocabulary_->adds_bos(); }
  bool adds_eos() const override { return vocabulary_->adds_eos(); }
  bool is_end_of_generation(int32_t id) const override {
    return vocabulary_->contains(id) && vocabulary_->is_end_of_generation(id);
  }
  std::span<const int32_t> suppressed() const override { return vocabulary_->suppressed(); }
  std::span<const std::string> warnings() const override { return warnings_; }
  std::string description() const override { return description_; }

 private:
  Result<std::vector<int32_t>> encode_well_formed(std::string_view text, std::span<const ByteRange> ranges,
                                                  const EncodeOptions& options) const {
    TrustCursor trust = options.parse_special && options.special_allowed
                            ? TrustCursor(ranges, text.size())
                            : TrustCursor(options.parse_special, text.size());
    TokenSink sink(options);
    size_t pos = 0;
    while (pos < text.size()) {
      const auto special = splitter_.find_next(text, pos, trust);
      const size_t fragment_end = special ? special->begin : text.size();
      T9_TRY_VOID(encoder_->encode(text.substr(pos, fragment_end - pos), options.normalize, sink));
      if (special) sink.push(special->id);
      pos = special ? special->end : text.size();
      if (!sink.advance(pos - fragment_end)) break;
    }
    return std::move(sink).finish();
  }

  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<FragmentEncoder> encoder_;
  SpecialSplitter splitter_;
  std::string description_;
  std::vector<std::string> warnings_;
};

std::unique_ptr<Tokenizer> assemble(std::unique_ptr<const Vocabulary> vocabulary,
                                    std::unique_ptr<FragmentEncoder> encoder, std::string description,
                                    std::vector<std::string> warnings) {
  warnings.insert(warnings.begin(), vocabulary->warnings().begin(), vocabulary->warnings().end());
  return std::make_unique<GgufTokenizer>(std::move(vocabulary), std::move(encoder), std::move(description),
                                         std::move(warnings));
}

Result<const PreTokenizer*> choose_pre_tokenizer(const gguf::Metadata& metadata, const CreateOptions& options) {
  T9_TRY(stored, metadata.find_string(kPreKey));
  const std::string name = options.pre.empty() ? stored.value_or("") : options.pre;
  if (name.empty()) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is missing: name the pre-tokenizer (supported: {})",
                                                      kPreKey, pre_tokenizer_names()));
  }
  if (const PreTokenizer* pre = find_pre_tokenizer(name)) return pre;
  return fail(ErrorCode::kUnsupported,
              fmt::format("unknown pre-tokenizer '{}' (supported: {})", sanitize_utf8(name), pre_tokenizer_names()));
}

Result<std::unique_ptr<Tokenizer>> create_byte_level(const gguf::Metadata& metadata, const CreateOptions& options) {
  T9_TRY(pre, choose_pre_tokenizer(metadata, options));
  T9_TRY(read, Vocabulary::read(metadata,
                                {.text_form = VocabularyDefaults::TextForm::kByteAlphabet, .adds_bos = pre->adds_bos}));
  auto vocabulary = std::make_unique<const Vocabulary>(std::move(read));
  std::vector<std::string> warnings;
  T9_TRY(encoder, create_byte_bpe(metadata, *vocabulary, *pre, warnings));
  return assemble(std::move(vocabulary), std::move(encoder), fmt::format("{}/{}", kByteLevelModel, pre->name),
                  std::move(warnings));
}

Result<std::unique_ptr<Tokenizer>> create_sentencepiece(const gguf::Metadata& metadata) {
  T9_TRY(read, Vocabulary::read(metadata, {.text_form = VocabularyDefaults::TextForm::kSpaceMarks,
                                           .adds_bos = true,
                                           .adds_space_prefix = true,
                                           .bos = 1,
                                           .eos = 2,
                                           .unknown = 0}));
  auto vocabulary = std::make_unique<const Vocabulary>(std::move(read));
  T9_TRY(encoder, create_sentencepiece_bpe(metadata, *vocabulary));
  return assemble(std::move(vocabulary), std::move(encoder), std::string(kSentencePieceModel), {});
}

Result<std::unique_ptr<Tokenizer>> create_gemma4(const gguf::Metadata& metadata) {
  T9_TRY(read, Vocabulary::read(metadata, {.text_form = VocabularyDefaults::TextForm::kSpaceMarks,
                                           .adds_bos = true,
                                           .adds_bos_always = true}));
  auto vocabulary = std::make_unique<const Vocabulary>(std::move(read));
  std::vector<std::string> warnings;
  T9_TRY(encoder, create_gemma4_bpe(metadata, *vocabulary, warnings));
  return assemble(std::move(vocabulary), std::move(encoder), std::string(kGemma4Model), std::move(warnings));
}

Result<std::unique_ptr<Tokenizer>> create_by_model(const gguf::Metadata& metadata, const CreateOptions& options) {
  T9_TRY(model, metadata.read_string(kModelKey));
  if (model == kByteLevelModel) return create_byte_level(metadata, options);
  if (model == kSentencePieceModel) return create_sentencepiece(metadata);
  if (model == kGemma4Model) return create_gemma4(metadata);
  return fail(ErrorCode::kUnsupported,
              fmt::format("unknown tokenizer model '{}' (supported: {}, {}, {})", sanitize_utf8(model), kByteLevelModel,
                          kSentencePieceModel, kGemma4Model));
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(const gguf::Metadata& metadata, const CreateOptions& options) {
  auto tokenizer = create_by_model(metadata, options);
  // What a model file lacks makes it invalid; nothing was asked for that could be absent.
  if (!tokenizer && tokenizer.error().code() == ErrorCode::kNotFound) {
    return fail(ErrorCode::kInvalidInput, tokenizer.error().message());
  }
  return tokenizer;
}

}  // namespace tempo9::tokenizer
