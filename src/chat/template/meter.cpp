#include "chat/template/meter.h"

#include <fmt/format.h>

namespace tempo9::chat {

Error Meter::error() const {
  if (too_long_)
    return Error(ErrorCode::kInvalidInput, fmt::format("text would be longer than {} bytes", limits_.output_bytes));
  if (too_deep_)
    return Error(ErrorCode::kInvalidInput, fmt::format("lists and dicts nest deeper than {}", kMaxNesting));
  if (memory_ > limits_.memory_bytes)
    return Error(ErrorCode::kInvalidInput, fmt::format("values take more than {} bytes", limits_.memory_bytes));
  return Error(ErrorCode::kInvalidInput, fmt::format("more than {} steps", limits_.steps));
}

}  // namespace tempo9::chat
