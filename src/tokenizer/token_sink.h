// Where the ids of one encoding go: counts them, keeps them up to the caller's limit, and asks whether to go on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::tokenizer {

class TokenSink {
 public:
  // `options` must outlive the sink.
  explicit TokenSink(const EncodeOptions& options) : options_(options) {}

  void push(int32_t id) {
    ++n_tokens_;
    if (options_.max_tokens <= 0 || n_tokens_ <= options_.max_tokens) ids_.push_back(id);
  }

  // Says that so many bytes of text have been dealt with. False once the encoding is to end; it stays so.
  bool advance(size_t bytes) {
    bytes_since_question_ += bytes;
    return bytes_since_question_ < kBytesPerQuestion ? !cancelled_ : keep_going();
  }
  // Asks at once.
  bool keep_going();

  Result<std::vector<int32_t>> finish() &&;

 private:
  static constexpr size_t kBytesPerQuestion = 64 << 10;

  const EncodeOptions& options_;
  std::vector<int32_t> ids_;
  int64_t n_tokens_ = 0;
  size_t bytes_since_question_ = 0;
  bool cancelled_ = false;
};

}  // namespace tempo9::tokenizer
