// kernel_table: how near the matrix products come to the machine's limits. For each weight type, layout and number of
// activation rows: GB/s of weights and GOP/s (a multiply-add is two operations), and these as a share of what a probe
// of plain reads and of plain int8 dots reached in the same round. Layouts and probes take turns, so that a busy
// moment of the machine hits all alike; medians over the rounds.
//
//   kernel_table [--threads N] [--types Q4_K,Q8_0] [--rows 1,4,8,32,512] [--cols 2048] [--mib 256] [--rounds 7]
//                [--isa NAME]
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "kernels/tiles.h"
#include "probe.h"
#include "random_weight.h"

namespace tempo9::kernels {
namespace {

struct Flags {
  int threads = n_usable_cores();
  std::vector<std::string> types;
  std::vector<int64_t> rows = {1, 4, 8, 32, 512};
  int64_t cols = 2048;
  int64_t mib = 256;
  int rounds = 7;
  std::string isa;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// One stage of n chunks.
template <class F>
class OneStage final : public StagedWork {
 public:
  OneStage(int64_t n, const F& f) : n_(n), f_(f) {}
  int64_t n_stages() const override { return 1; }
  int64_t n_chunks(int64_t) const override { return n_; }
  void run_chunk(int64_t, int64_t chunk, int worker) const override { f_(chunk, worker); }

 private:
  const int64_t n_;
  const F& f_;
};

// Of one thread the time that it had the CPU: other processes then count for little. Of several the time that passed.
double now_seconds(bool one_thread) {
  timespec time{};
  ::clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double seconds_of(ThreadPool& pool, int64_t n_chunks, const F& f) {
  const OneStage<F> work(n_chunks, f);
  const bool one_thread = pool.n_workers() == 1;
  const double begin = now_seconds(one_thread);
  pool.run(work);
  return now_seconds(one_thread) - begin;
}

// Activation rows and results of a product, as large as the largest that is asked for.
struct Rows {
  std::vector<float> x;
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int16_t> sums;
  QuantizedRows quantized;

  Rows(const Isa& isa, ActFormat format, int64_t rows, int64_t cols)
      : x(static_cast<size_t>(rows * cols)), codes(x.size()), scales(x.size() / 32), sums(x.size() / 16) {
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 2001) * 0.001f - 1.0f;
    quantized = {codes.data(), scales.data(), sums.data(), rows, cols, format};
    if (format != ActFormat::kF32) isa.matmul->quantize({x.data(), rows, cols, cols}, {0, rows}, quantized);
  }
};

class Table {
 public:
  Table(const Flags& flags, const Isa& isa) : flags_(flags), isa_(isa), pool_(flags.threads) {}

  void run(tensor::DType dtype) {
    for (const int64_t m : flags_.rows) {
      // Many rows are a matter of arithmetic: fewer weights will do.
      const int64_t bytes = (m <= 8 ? flags_.mib : std::min<int64_t>(flags_.mib, 16)) << 20;
      const auto row_bytes = static_cast<int64_t>(tensor::row_bytes(dtype, flags_.cols));
      const RandomWeight in_place(dtype, flags_.cols, std::max<int64_t>(128, bytes / row_bytes / 128 * 128));
      measure(in_place.view, m);
    }
  }

 private:
  void measure(const WeightView& in_place, int64_t m) {
    std::vector<WeightView> layouts = {in_place};
    Buffer copy;
    if (can_tile(*isa_.matmul, in_place)) {
      copy = *Buffer::reserve(in_place.size_bytes());
      isa_.matmul->write_tiles(in_place, {0, in_place.rows}, copy.data());
      layouts.push_back(in_place);
      layouts.back().data = copy.data();
      layouts.back().layout = tensor::Layout::kTiled;
    }
    const Rows x(isa_, act_format(in_place.dtype), m, in_place.cols);
    std::vector<float> out(static_cast<size_t>(m * in_place.rows));
    std::vector<std::vector<double>> rates(layouts.size()), shares(layouts.size());
    std::vector<double> reads, dots;
    for (int round = -1; round < flags_.rounds; ++round) {
      const double read = probe_read(in_place);
      const double dot = probe_dots();
      for (size_t i = 0; i < layouts.size(); ++i) {
        const double seconds = product(layouts[i], m, x, {out.data(), m, in_place.rows, in_place.rows});
        if (round < 0) continue;
        const double gb = static_cast<double>(in_place.size_bytes()) / seconds * 1e-9;
        const double gop = 2e-9 * static_cast<double>(m * in_place.elements()) / seconds;
        rates[i].push_back(m <= 8 ? gb : gop);
        shares[i].push_back(m <= 8 ? gb / read : gop / dot);
      }
      if (round >= 0) reads.push_back(read);
      if (round >= 0) dots.push_back(dot);
    }
    fmt::print("{:<8} {:>4} {:<6}", tensor::dtype_name(in_place.dtype), m, m <= 8 ? "GB/s" : "GOP/s");
    for (size_t i = 0; i < layouts.size(); ++i) {
      fmt::print(" {} {:7.1f} {:4.0f} %", i == 0 ? "in place" : "  tiles", median(rates[i]), 100 * median(shares[i]));
    }
    fmt::print("   probe {:.1f}\n", median(m <= 8 ? reads : dots));
    std::fflush(stdout);
  }

  // GB/s
  double probe_read(const WeightView& weight) {
    const int64_t n = 64 * flags_.threads;
    const int64_t part = static_cast<int64_t>(weight.size_bytes()) / n / 64 * 64;
    const double seconds =
        seconds_of(pool_, n, [&](int64_t chunk, int) { read_bytes(weight.data + chunk * part, part); });
    return static_cast<double>(n * part) / seconds * 1e-9;
  }

  // GOP/s
  double probe_dots() {
    constexpr int64_t kRepeats = 1 << 14;
    const int64_t n = 16 * flags_.threads;
    const double seconds = seconds_of(pool_, n, [&](int64_t, int) { int8_dots(kRepeats); });
    return static_cast<double>(n * kRepeats * kOperationsPerRepeat) / seconds * 1e-9;
  }

  double product(const WeightView& weight, int64_t m, const Rows& x, MatView<float> out) {
    const int64_t few = std::max<int64_t>(32, (128 << 10) / static_cast<int64_t>(weight.row_bytes) / 32 * 32);
    const int64_t panel = m <= 8 ? few : 64;
    const size_t scratch_bytes = (isa_.matmul->scratch_bytes(weight) + 63) / 64 * 64;
    if (scratch_.size() < scratch_bytes * static_cast<size_t>(flags_.threads)) {
      scratch_ = *Buffer::reserve(scratch_bytes * static_cast<size_t>(flags_.threads));
    }
    const bool is_float = act_format(weight.dtype) == ActFormat::kF32;
    return seconds_of(pool_, (weight.rows + panel - 1) / panel, [&](int64_t chunk, int worker) {
      const IndexRange rows{chunk * panel, std::min(weight.rows, (chunk + 1) * panel)};
      std::byte* scratch = scratch_.data() + scratch_bytes * static_cast<size_t>(worker);
      if (is_float) {
        isa_.matmul->floating(weight.dtype)(weight, rows, {x.x.data(), m, weight.cols, weight.cols}, out, scratch);
      } else {
        isa_.matmul->quant(weight.dtype)(weight, rows, x.quantized, out, scratch);
      }
    });
  }

  const Flags flags_;
  const Isa& isa_;
  ThreadPool pool_;
  Buffer scratch_;
};

int run(const Flags& flags) {
  const Isa* isa = flags.isa.empty() ? &best_isa() : find_isa(flags.isa);
  if (isa == nullptr || !isa->runs_here()) {
    fmt::print(stderr, "kernel_table: {} does not run here\n", flags.isa);
    return 1;
  }
  fmt::print("{} ({}), {} threads, {} columns, {} rounds\n", isa->name, isa->description, flags.threads, flags.cols,
             flags.rounds);
  Table table(flags, *isa);
  for (const tensor::DTypeInfo& info : tensor::all_dtypes()) {
    if (info.state != tensor::DTypeState::kUsable || flags.cols % info.block_elements != 0) continue;
    if (flags.types.empty() || std::ranges::find(flags.types, info.name) != flags.types.end()) table.run(info.dtype);
  }
  return 0;
}

}  // namespace
}  // namespace tempo9::kernels

int main(int argc, char** argv) {
  using namespace tempo9::kernels;
  Flags flags;
  CLI::App app("kernel_table: matrix products against the machine's limits");
  app.add_option("--threads", flags.threads)->check(CLI::Range(1, 64));
  app.add_option("--types", flags.types)->delimiter(',');
  app.add_option("--rows", flags.rows)->delimiter(',')->check(CLI::Range(1, 4096));
  app.add_option("--cols", flags.cols)->check(CLI::Range(32, 1 << 20));
  app.add_option("--mib", flags.mib)->check(CLI::Range(1, 4096));
  app.add_option("--rounds", flags.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--isa", flags.isa);
  CLI11_PARSE(app, argc, argv);
  return run(flags);
}
