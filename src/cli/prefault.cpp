#include "cli/prefault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "cli/memory.h"

namespace tempo9::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kShowAfter{300};
constexpr std::chrono::milliseconds kRedrawEvery{100};

// Drawn on one line of stderr; gone when the work is done.
class ProgressBar {
 public:
  explicit ProgressBar(uint64_t total) : total_(total), next_draw_(Clock::now() + kShowAfter) {}
  ~ProgressBar() {
    if (is_drawn_) fmt::print(stderr, "\r\x1b[K");
  }

  void advance(uint64_t bytes) {
    done_ += bytes;
    if (!is_terminal_ || Clock::now() < next_draw_) return;
    next_draw_ = Clock::now() + kRedrawEvery;
    is_drawn_ = true;
    constexpr uint64_t kWidth = 40;
    const uint64_t filled = kWidth * done_ / total_;
    fmt::print(stderr, "\rloading  [{:<{}}] {:3}%, {:.0f} s left ", std::string(filled, '#'), kWidth,
               100 * done_ / total_, seconds_left());
    std::fflush(stderr);
  }

 private:
  // At the speed so far.
  double seconds_left() const {
    const std::chrono::duration<double> spent = Clock::now() - started_;
    return spent.count() * static_cast<double>(total_ - done_) / static_cast<double>(done_);
  }

  const uint64_t total_;
  const Clock::time_point started_ = Clock::now();
  const bool is_terminal_ = isatty(STDERR_FILENO) != 0;
  uint64_t done_ = 0;
  Clock::time_point next_draw_;
  bool is_drawn_ = false;
};

}  // namespace

void prefault(std::span<const tensor::WeightView> weights) {
  const uint64_t total = weight_bytes(weights);
  if (total == 0 || !fit_memory(weights)) return;
  constexpr uint64_t kSlice = 8 << 20;
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  ProgressBar bar(total);
  for (const tensor::WeightView& weight : weights) {
    const volatile std::byte* bytes = weight.data;
    for (uint64_t begin = 0; begin < weight.size_bytes(); begin += kSlice) {
      const uint64_t end = std::min<uint64_t>(weight.size_bytes(), begin + kSlice);
      for (uint64_t i = begin; i < end; i += page) static_cast<void>(bytes[i]);
      bar.advance(end - begin);
    }
  }
}

}  // namespace tempo9::cli
