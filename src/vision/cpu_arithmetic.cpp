#include "vision/cpu_arithmetic.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/quantized_memory.h"
#include "vision/activation.h"

namespace tempo9::vision {
namespace {

using kernels::ActFormat;
using tensor::IndexRange;
using tensor::MatView;

// A chunk is the unit in which a stop is noticed and in which other threads get the cores back: some hundred
// microseconds to a few milliseconds.
constexpr int64_t kRowsPerChunk = 16;
// Of a product: a panel of weight rows is unpacked once for a block of activation rows.
constexpr int64_t kPanelRows = 64;
constexpr int64_t kBlockBytes = 1 << 20;
// Query rows that go through a head's keys together.
constexpr int64_t kQueryRows = 64;

int64_t n_parts(int64_t n, int64_t part) { return (n + part - 1) / part; }
IndexRange part_of(int64_t n, int64_t part, int64_t index) { return {index * part, std::min(n, (index + 1) * part)}; }

// 64-byte aligned memory of one worker, from the stack of none: kernels take it as scratch.
class WorkerMemory {
 public:
  WorkerMemory(int n_workers, size_t bytes)
      : bytes_((bytes + 63) / 64 * 64), data_(bytes_ * static_cast<size_t>(n_workers) + 64) {}
  std::byte* of(int worker) {
    const auto address = reinterpret_cast<uintptr_t>(data_.data());
    return data_.data() + ((address + 63) / 64 * 64 - address) + static_cast<size_t>(worker) * bytes_;
  }

 private:
  size_t bytes_;
  std::vector<std::byte> data_;
};

class RowsWork final : public StagedWork {
 public:
  RowsWork(int64_t n, const std::function<void(IndexRange)>& f, const std::stop_token& stop)
      : n_(n), f_(f), stop_(stop) {}
  int64_t n_stages() const override { return 1; }
  int64_t n_chunks(int64_t) const override { return n_parts(n_, kRowsPerChunk); }
  void run_chunk(int64_t, int64_t chunk, int) const override {
    if (!stop_.stop_requested()) f_(part_of(n_, kRowsPerChunk, chunk));
  }

 private:
  int64_t n_;
  const std::function<void(IndexRange)>& f_;
  const std::stop_token& stop_;
};

// Stage 0: activations to integers, where the weight wants that. Stage 1: panels of weight rows for blocks of rows.
class LinearWork final : public StagedWork {
 public:
  LinearWork(const kernels::Isa& isa, const Linear& linear, MatView<const float> x, MatView<float> out,
             std::vector<std::byte>& quantized, int n_workers, const std::stop_token& stop)
      : isa_(isa),
        linear_(linear),
        weight_(linear.weight),
        x_(x),
        out_(out),
        stop_(stop),
        format_(kernels::act_format(weight_.dtype)),
        memory_(std::make_unique<WorkerMemory>(n_workers, isa.matmul->scratch_bytes(weight_))) {
    T9_CHECK(x.cols == weight_.cols && out.cols == weight_.rows && x.rows == out.rows);
    const int64_t row_bytes = x.cols * (is_quantized() ? 1 : 4);
    block_rows_ = std::max<int64_t>(32, kBlockBytes / row_bytes / 32 * 32);
    if (!is_quantized()) return;
    const size_t bytes = quantized_bytes(format_, x.rows, x.cols);
    if (quantized.size() < bytes) quantized.resize(bytes);
    rows_ = quantized_view(quantized.data(), format_, x.rows, x.cols);
  }

  int64_t n_stages() const override { return 2; }
  int64_t n_chunks(int64_t stage) const override {
    if (stage == 0) return is_quantized() ? n_parts(x_.rows, kRowsPerChunk) : 0;
    return n_parts(x_.rows, block_rows_) * n_panels();
  }
  void run_chunk(int64_t stage, int64_t chunk, int worker) const override {
    if (stop_.stop_requested()) return;
    if (stage == 0) {
      isa_.matmul->quantize(x_, part_of(x_.rows, kRowsPerChunk, chunk), rows_);
    } else {
      multiply(part_of(x_.rows, block_rows_, chunk / n_panels()), part_of(weight_.rows, kPanelRows, chunk % n_panels()),
               worker);
    }
  }

 private:
  bool is_quantized() const { return format_ != ActFormat::kF32; }
  int64_t n_panels() const { return n_parts(weight_.rows, kPanelRows); }

  void multiply(IndexRange rows, IndexRange panel, int worker) const {
    const MatView<float> out{
        .data = out_.row(rows.begin), .rows = rows.size(), .cols = out_.cols, .stride = out_.stride};
    if (is_quantized()) {
      kernels::QuantizedRows part = rows_;
      part.q += rows.begin * part.cols;
      part.d += rows.begin * (part.cols / part.block());
      part.sums += rows.begin * (part.cols / part.sum_group());
      part.rows = rows.size();
      isa_.matmul->quant(weight_.dtype)(weight_, panel, part, out, memory_->of(worker));
    } else {
      const kernels::FloatRows part{.x = x_.row(rows.begin), .rows = rows.size(), .cols = x_.cols, .stride = x_.stride};
      isa_.matmul->floating(weight_.dtype)(weight_, panel, part, out, memory_->of(worker));
    }
    if (linear_.bias.empty()) return;
    for (int64_t r = 0; r < out.rows; ++r) {
      float* to = out.row(r) + panel.begin;
      isa_.rows->add(to, linear_.bias.data() + panel.begin, to, panel.size());
    }
  }

  const kernels::Isa& isa_;
  const Linear& linear_;
  const tensor::WeightView& weight_;
  const MatView<const float> x_;
  const MatView<float> out_;
  const std::stop_token& stop_;
  const ActFormat format_;
  const std::unique_ptr<WorkerMemory> memory_;
  int64_t block_rows_ = 0;
  kernels::QuantizedRows rows_;
};

// Stage 0: keys and values into pages, each range's own. Stage 1: blocks of query rows, head by head. The kernels'
// attention is causal by the slots that rows are given: here all rows of a range stand at its last one.
class AttentionWork final : public StagedWork {
 public:
  AttentionWork(const kernels::Isa& isa, tensor::KvType type, const AttentionInput& input, CpuScratch& scratch,
                int n_workers, const std::stop_token& stop)
      : kernels_(isa.attention(type)), input_(input), stop_(stop), scratch_(scratch) {
    const int64_t head_dim = input.q.cols / input.n_heads;
    shape_ = {.n_heads = input.n_heads,
              .n_kv_heads = input.n_heads,
              .k_head_dim = head_dim,
              .v_head_dim = head_dim,
              .scale = input.scale};
    for (const IndexRange range : input.ranges) {
      for (int64_t row = range.begin; row < range.end; row += tensor::kPageTokens) {
        pages_.push_back({row, std::min(range.end, row + tensor::kPageTokens)});
      }
      const int64_t first_page = std::ssize(pages_) - n_parts(range.size(), tensor::kPageTokens);
      for (int64_t row = range.begin; row < range.end; row += kQueryRows) {
        blocks_.push_back({.rows = {row, std::min(range.end, row + kQueryRows)},
                           .first_page = first_page,
                           .n_keys = n_visible(range)});
      }
    }
    k_page_bytes_ = kernels::k_page_bytes(shape_, type);
    v_page_bytes_ = kernels::v_page_bytes(shape_, type);
    reserve(scratch.k_pages, pages_.size() * k_page_bytes_);
    reserve(scratch.v_pages, pages_.size() * v_page_bytes_);
    for (auto i = static_cast<int32_t>(scratch.page_ids.size()); i < std::ssize(pages_); ++i)
      scratch.page_ids.push_back(i);
    memory_ = std::make_unique<WorkerMemory>(n_workers, sizeof(float) * 2 * static_cast<size_t>(state_floats()));
  }

  int64_t n_stages() const override { return 2; }
  int64_t n_chunks(int64_t stage) const override {
    return stage == 0 ? std::ssize(pages_) : std::ssize(blocks_) * shape_.n_heads;
  }
  void run_chunk(int64_t stage, int64_t chunk, int worker) const override {
    if (stop_.stop_requested()) return;
    if (stage == 0) {
      write_page(chunk);
    } else {
      attend(blocks_[static_cast<size_t>(chunk % std::ssize(blocks_))], chunk / std::ssize(blocks_), worker);
    }
  }

 private:
  struct QueryBlock {
    IndexRange rows;
    int64_t first_page = 0;
    int64_t n_keys = 0;
  };

  // Padding is hidden from the image's rows. Rows of padding alone see each other: what becomes of them is not used.
  int64_t n_visible(IndexRange range) const {
    return range.begin < input_.n_real ? std::min(range.end, input_.n_real) - range.begin : range.size();
  }
  // New memory is zero and everything written later is finite, as the kernels ask of the unused end of a page.
  static void reserve(std::vector<std::byte>& memory, size_t bytes) {
    if (memory.size() < bytes) memory.resize(bytes);
  }
  int64_t state_floats() const { return kQueryRows * (2 + shape_.v_head_dim); }
  kernels::AttentionState state(float* memory) const {
    return {.max = memory, .sum = memory + kQueryRows, .values = memory + 2 * kQueryRows};
  }

  void write_page(int64_t page) const {
    const IndexRange rows = pages_[static_cast<size_t>(page)];
    std::byte* k = scratch_.k_pages.data() + static_cast<size_t>(page) * k_page_bytes_;
    std::byte* v = scratch_.v_pages.data() + static_cast<size_t>(page) * v_page_bytes_;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      kernels_.write(shape_, input_.k.row(r), input_.v.row(r), k, v, r - rows.begin);
    }
  }

  void attend(const QueryBlock& block, int64_t head, int worker) const {
    int32_t slots[kQueryRows];
    std::ranges::fill(slots, static_cast<int32_t>(block.n_keys - 1));
    const auto first = static_cast<size_t>(block.first_page);
    const kernels::AttentionRows rows{.q = input_.q.row(block.rows.begin),
                                      .q_stride = input_.q.stride,
                                      .slots = slots,
                                      .n_rows = block.rows.size(),
                                      .pages = scratch_.page_ids.data(),
                                      .k = scratch_.k_pages.data() + first * k_page_bytes_,
                                      .v = scratch_.v_pages.data() + first * v_page_bytes_,
                                      .k_page_bytes = k_page_bytes_,
                                      .v_page_bytes = v_page_bytes_};
    auto* memory = reinterpret_cast<float*>(memory_->of(worker));
    const kernels::AttentionState total = state(memory), part = state(memory + state_floats());
    kernels_.attend_span(shape_, rows, head, 0, total);
    for (int64_t span = 1; span < n_parts(block.n_keys, kernels::kSpanTokens); ++span) {
      kernels_.attend_span(shape_, rows, head, span, part);
      kernels_.merge(shape_, rows.n_rows, part, total);
    }
    kernels_.finish(shape_, rows.n_rows, head, total, nullptr, input_.out.row(block.rows.begin), input_.out.stride);
  }

  const kernels::AttentionKernels& kernels_;
  const AttentionInput& input_;
  const std::stop_token& stop_;
  CpuScratch& scratch_;
  kernels::AttentionShape shape_;
  std::vector<IndexRange> pages_;  // rows of each
  std::vector<QueryBlock> blocks_;
  size_t k_page_bytes_ = 0;
  size_t v_page_bytes_ = 0;
  std::unique_ptr<WorkerMemory> memory_;
};

}  // namespace

void CpuArithmetic::linear(const Linear& linear, MatView<const float> x, MatView<float> out) {
  pool_.run(LinearWork(isa_, linear, x, out, scratch_.quantized, pool_.n_workers(), stop_));
}

void CpuArithmetic::attention(const AttentionInput& input) {
  pool_.run(AttentionWork(isa_, attention_type_, input, scratch_, pool_.n_workers(), stop_));
}

void CpuArithmetic::activate(Activation activation, const float* x, const float* by, float* out, int64_t n) const {
  constexpr int64_t kPart = 256;
  float gates[kPart], ones[kPart];
  std::ranges::fill(ones, 1.0f);
  for (int64_t begin = 0; begin < n; begin += kPart) {
    const int64_t count = std::min(kPart, n - begin);
    const float* from = x + begin;
    const float* factor = by == nullptr ? ones : by + begin;
    switch (activation) {
      case Activation::kGeluTanh:
        isa_.rows->gated(tensor::Activation::kGeluTanh, from, factor, out + begin, count);
        break;
      case Activation::kSilu:
        isa_.rows->gated(tensor::Activation::kSilu, from, factor, out + begin, count);
        break;
      case Activation::kGeluQuick:  // x sigmoid(1.702 x)
        isa_.rows->scale(from, 1.702f, gates, count);
        isa_.rows->gated(tensor::Activation::kSigmoid, gates, from, out + begin, count);
        for (int64_t i = 0; i < count; ++i) out[begin + i] *= factor[i];
        break;
      case Activation::kGeluErf:
        for (int64_t i = 0; i < count; ++i) {
          out[begin + i] = static_cast<float>(activation_of(activation, from[i])) * factor[i];
        }
        break;
    }
  }
}

void CpuArithmetic::for_rows(int64_t n, const std::function<void(IndexRange)>& f) { pool_.run(RowsWork(n, f, stop_)); }

}  // namespace tempo9::vision
