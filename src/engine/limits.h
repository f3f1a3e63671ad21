// Everything in the engine that could grow, and how far it may.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tempo9::engine {

inline constexpr int64_t kMaxWaiting = 512;       // requests in the queue behind the running ones
inline constexpr size_t kMaxStreamEvents = 1024;  // unread events; then the sequence pauses until some are read
inline constexpr int32_t kMaxTopLogprobs = 20;
inline constexpr size_t kMaxStopStrings = 16;
inline constexpr int64_t kMaxStepRows = 512;  // rows of one pass

}  // namespace tempo9::engine
