// What a GGUF file says about its tokens, corrected: texts, types, special ids, and the bytes that each stands for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "tokenizer/special_names.h"
#include "tokenizer/text_table.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::tokenizer {

// What holds for a kind of tokenizer where the file is silent.
struct VocabularyDefaults {
  enum class TextForm : uint8_t { kByteAlphabet, kSpaceMarks };

  TextForm text_form = TextForm::kByteAlphabet;  // how the texts of normal tokens are to be read
  bool adds_bos = false;
  bool adds_bos_always = false;  // whatever the file says
  bool adds_eos = false;
  bool adds_space_prefix = false;
  std::optional<int32_t> bos = std::nullopt;
  std::optional<int32_t> eos = std::nullopt;
  std::optional<int32_t> unknown = std::nullopt;
};

// Immutable once read.
class Vocabulary {
 public:
  // Errors: kInvalidInput, naming the key.
  static Result<Vocabulary> read(const gguf::Metadata& metadata, const VocabularyDefaults& defaults);

  int64_t size() const { return static_cast<int64_t>(types_.size()); }
  bool contains(int64_t id) const { return id >= 0 && id < size(); }

  // REQUIRES, of all below: contains(id).
  std::string_view text(int32_t id) const { return texts_.at(id); }
  TokenType type(int32_t id) const { return types_[static_cast<size_t>(id)]; }
  // Bytes in output with special rendering on.
  std::string_view piece(int32_t id) const { return pieces_.at(id); }
  // In output only with special rendering on.
  bool is_hidden(int32_t id) const { return type(id) == TokenType::kControl || type(id) == TokenType::kUnknown; }
  // Matched in text before anything else, only where special tokens may be written.
  bool is_guarded_special(int32_t id) const { return is_hidden(id) || is_structural_[static_cast<size_t>(id)]; }
  // Reachable from ordinary text by merging. What is not here no user can produce by spelling it.
  bool is_mergeable(int32_t id) const;

  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> eos() const { return eos_; }
  // What stands for text that has no tokens. None where the file names a control token (SmolLM2: <|endoftext|>),
  // because no text may produce one.
  std::optional<int32_t> unknown() const { return unknown_; }
  // The token <0xNN>, if there is one.
  std::optional<int32_t> byte_token(uint8_t byte) const;
  bool adds_bos() const { return adds_bos_; }
  bool adds_eos() const { return adds_eos_; }
  bool adds_space_prefix() const { return adds_space_prefix_; }
  bool is_end_of_generation(int32_t id) const { return is_end_[static_cast<size_t>(id)]; }
  std::span<const int32_t> suppressed() const { return suppressed_; }
  // Things in the file that were ignored or repaired, as sentences.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  // Strings one after another in one block.
  class StringArena {
   public:
    void append(std::string_view text) {
      bytes_ += text;
      ends_.push_back(bytes_.size());
    }
    std::string_view at(int32_t index) const {
      const auto i = static_cast<size_t>(index);
      const size_t begin = i == 0 ? 0 : ends_[i - 1];
      return std::string_view(bytes_).substr(begin, ends_[i] - begin);
    }

   private:
    std::string bytes_;
    std::vector<size_t> ends_;
  };

  Result<void> read_texts(const gguf::Metadata& metadata);
  Result<void> read_types(const gguf::Metadata& metadata, VocabularyDefaults::TextForm form);
  Result<TextTable> index_texts() const;
  void note_types();
  Result<void> read_special_ids(const gguf::Metadata& metadata, const VocabularyDefaults& defaults);
  Result<void> read_ends(const gguf::Metadata& metadata, const NamedTokens& named);
  Result<void> read_suppressed(const gguf::Metadata& metadata);
  // An id that lies in the vocabulary, or `fallback` where the key is absent.
  Result<std::optional<int32_t>> read_id(const gguf::Metadata& metadata, std::string_view key,
                                         std::optional<int32_t> fallback = std::nullopt);
  // The ids that lie in the vocabulary; none where the key is absent.
  Result<std::vector<int32_t>> read_ids(const gguf::Metadata& metadata, std::string_view key);
  void build_pieces(VocabularyDefaults::TextForm form);

  StringArena texts_;
  StringArena pieces_;
  std::vector<TokenType> types_;
  std::vector<bool> is_structural_;
  std::vector<bool> is_end_;
  std::array<int32_t, 256> byte_tokens_ = {};  // -1: none
  std::vector<int32_t> suppressed_;
  std::optional<int32_t> bos_;
  std::optional<int32_t> eos_;
  std::optional<int32_t> unknown_;
  bool adds_bos_ = false;
  bool adds_eos_ = false;
  bool adds_space_prefix_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace tempo9::tokenizer
