#include "tokenizer/token_sink.h"

#include <fmt/format.h>

#include <utility>

namespace tempo9::tokenizer {

bool TokenSink::keep_going() {
  bytes_since_question_ = 0;
  cancelled_ = cancelled_ || (options_.is_cancelled && options_.is_cancelled());
  return !cancelled_;
}

Result<std::vector<int32_t>> TokenSink::finish() && {
  if (cancelled_) return fail(ErrorCode::kCancelled, "the encoding was cancelled");
  if (options_.max_tokens > 0 && n_tokens_ > options_.max_tokens) {
    return fail(Error(ErrorCode::kOutOfCapacity,
                      fmt::format("the text has {} tokens, more than the {} allowed", n_tokens_, options_.max_tokens))
                    .with_overflow(n_tokens_, options_.max_tokens));
  }
  return std::move(ids_);
}

}  // namespace tempo9::tokenizer
