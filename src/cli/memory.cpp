#include "cli/memory.h"

#include <algorithm>
#include <cstdint>

#include "base/buffer.h"

namespace tempo9::cli {

size_t default_memory_bytes(const gguf::File& file) {
  constexpr uint64_t kLeast = uint64_t{512} << 20;
  const uint64_t usable = usable_memory_bytes();
  const uint64_t beside_weights = usable - std::min(usable, file.size_bytes());
  return std::max(beside_weights / 2, kLeast);
}

}  // namespace tempo9::cli
