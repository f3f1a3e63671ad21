#include "cli/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/buffer.h"

namespace tempo9::cli {

size_t default_memory_bytes(const gguf::File& file) {
  constexpr uint64_t kLeast = uint64_t{512} << 20;
  const uint64_t usable = usable_memory_bytes();
  const uint64_t beside_weights = usable - std::min(usable, file.size_bytes());
  return std::max(beside_weights / 2, kLeast);
}

uint64_t weight_bytes(std::span<const tensor::WeightView> weights) {
  uint64_t total = 0;
  for (const tensor::WeightView& weight : weights) total += weight.size_bytes();
  return total;
}

bool fit_memory(std::span<const tensor::WeightView> weights) { return weight_bytes(weights) < usable_memory_bytes(); }

std::string describe_misfit(std::span<const tensor::WeightView> weights) {
  return fmt::format(
      "{} of weights, {} of memory: each token reads weights from the disk again, which is very slow; "
      "take a smaller model or quantisation",
      human_bytes(static_cast<double>(weight_bytes(weights))), human_bytes(static_cast<double>(usable_memory_bytes())));
}

std::string human_count(int64_t n) {
  const auto count = static_cast<double>(n);
  if (count >= 1e9) return fmt::format("{:.3g}B", count / 1e9);
  return count >= 1e6 ? fmt::format("{:.0f}M", count / 1e6) : fmt::format("{:.0f}K", count / 1e3);
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024.0 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024.0;
  return fmt::format("{:.{}f} {}", bytes, bytes < 10.0 && unit > 0 ? 1 : 0, kUnits[unit]);
}

}  // namespace tempo9::cli
