// Text to token ids and back. Built from a GGUF file's metadata; spec tokenizers is the reference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"

namespace tempo9::tokenizer {

enum class TokenType : uint8_t { kUndefined, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// A half-open range of bytes.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
};

struct EncodeOptions {
  // Control tokens written in the text become control tokens, inside `special_allowed` only when that is given.
  bool parse_special = false;
  // With parse_special: the byte ranges (ascending, disjoint) in which special tokens may match; none given means
  // everywhere. A match must lie in one range. Text merges across range borders as if they were not there.
  std::optional<std::span<const ByteRange>> special_allowed = std::nullopt;
  // NFC for the families whose original tokenizer normalises; off for parity tests.
  bool normalize = true;
  // When there are more ids than this, kOutOfCapacity with Error::overflow() set: the count in it is exact, but no more
  // ids than these are ever held. 0: no limit.
  int64_t max_tokens = 0;
  // Asked every 64 KiB or so; true ends the encoding with kCancelled.
  std::function<bool()> is_cancelled = nullptr;
};

struct CreateOptions {
  // Overrides tokenizer.ggml.pre; for files that lack it.
  std::string pre;
};

// Immutable after creation, any thread may use it.
class Tokenizer {
 public:
  // Errors: kUnsupported naming the tokenizer model or pre-tokenizer that is not implemented; kInvalidInput naming the
  // metadata that is missing or contradictory.
  static Result<std::unique_ptr<Tokenizer>> create(const gguf::Metadata& metadata, const CreateOptions& options = {});
  virtual ~Tokenizer() = default;

  // Ids of `text`; no BOS or EOS is added. Linear or n log n in the text's length whatever it holds. Ill-formed UTF-8
  // is read as U+FFFD.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options = {}) const = 0;

  virtual int64_t n_tokens() const = 0;
  // Bytes that the token stands for in output: empty for control tokens unless `special`. Valid while the tokenizer
  // lives; ids out of range give an empty view.
  virtual std::string_view piece(int32_t id, bool special = false) const = 0;
  // The token's text as stored in the file; valid while the tokenizer lives.
  virtual std::string_view token_text(int32_t id) const = 0;
  virtual TokenType type(int32_t id) const = 0;

  // Whole-sequence decode: pieces joined, the artificial leading space of SentencePiece removed.
  virtual std::string decode(std::span<const int32_t> ids, bool special = false) const = 0;

  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;
  virtual bool adds_bos() const = 0;
  virtual bool adds_eos() const = 0;
  // Ends a generation.
  virtual bool is_end_of_generation(int32_t id) const = 0;
  // Ids never sampled: tokenizer.ggml.suppress_tokens.
  virtual std::span<const int32_t> suppressed() const = 0;
  // What in the file was ignored or repaired, a sentence each, to be logged once at start.
  virtual std::span<const std::string> warnings() const { return {}; }
  // "gpt2/llama-bpe": for logs and inspect.
  virtual std::string description() const = 0;
};

}  // namespace tempo9::tokenizer
