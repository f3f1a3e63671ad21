// Hand-written programs, random data, and a KV cache of plain vectors.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backends/reference/reference.h"
#include "tensor/batch.h"
#include "tensor/program.h"

namespace tempo9::backends {

using tensor::MatView;
using tensor::Program;
using tensor::ValueId;
using tensor::WeightId;
using tensor::WeightView;

inline std::vector<float> random_floats(size_t n, uint32_t seed, float sigma = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// A program under construction, with the bytes of its weights. Every value has a slot of its own.
struct TestProgram {
  Program program;
  std::optional<tensor::KvType> kv_type = {};  // empty: the backend's default
  std::vector<std::vector<std::byte>> weight_bytes;

  ValueId value(int64_t cols, tensor::RowSet rows = tensor::RowSet::kBatch) {
    program.values.push_back({.name = "v" + std::to_string(program.values.size()), .cols = cols, .rows = rows});
    program.memory.slot_of_value.push_back(static_cast<int32_t>(program.memory.slot_cols.size()));
    program.memory.slot_cols.push_back(cols);
    return static_cast<ValueId>(program.values.size() - 1);
  }

  WeightId weight(tensor::DType dtype, int64_t cols, int64_t rows, std::vector<std::byte> bytes, int64_t depth = 1) {
    const std::string name = "w" + std::to_string(program.weights.size());
    program.weights.push_back({.name = name, .dtype = dtype, .cols = cols, .rows = rows, .depth = depth});
    weight_bytes.push_back(std::move(bytes));
    return static_cast<WeightId>(program.weights.size() - 1);
  }

  WeightId weight(const std::vector<float>& values, int64_t cols) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return weight(tensor::DType::kF32, cols, static_cast<int64_t>(values.size()) / cols, std::move(bytes));
  }

  template <class Op>
  ValueId add(const Op& op) {
    program.ops.push_back(op);
    return op.out;
  }

  std::vector<WeightView> views() const {
    std::vector<WeightView> result;
    for (size_t i = 0; i < program.weights.size(); ++i) {
      const tensor::WeightSpec& spec = program.weights[i];
      result.push_back({.dtype = spec.dtype,
                        .cols = spec.cols,
                        .rows = spec.rows,
                        .depth = spec.depth,
                        .data = weight_bytes[i].data(),
                        .row_bytes = tensor::row_bytes(spec.dtype, spec.cols)});
    }
    return result;
  }

  std::unique_ptr<Executable> compile(const CompileOptions& options = {}) const {
    auto executable = make_reference_backend()->compile(program, views(), options);
    return executable ? std::move(*executable) : nullptr;
  }
};

// Rows of token embeddings as they are: the way to give a program any input. Token i is row i of `rows`.
inline ValueId input(TestProgram& p, const std::vector<float>& rows, int64_t cols) {
  return p.add(tensor::Embed{.table = p.weight(rows, cols), .out = p.value(cols), .scale = 1.0f});
}

// Pages for a program's layers, one pool; pages are dealt out in a mixed order, and what was never written is NaN.
class FakeKv {
 public:
  FakeKv(const Program& program, int32_t n_sequences, int32_t pages_per_sequence) {
    const auto backend = make_reference_backend();
    const int32_t n_pages = n_sequences * pages_per_sequence;
    for (const tensor::KvLayerSpec& layer : program.kv_layers) {
      const KvPageBytes bytes = backend->kv_page_bytes(layer, tensor::KvType::kF32);
      memory_.emplace_back(bytes.k * static_cast<size_t>(n_pages), std::byte{0xFF});
      std::byte* k = memory_.back().data();
      memory_.emplace_back(bytes.v * static_cast<size_t>(n_pages), std::byte{0xFF});
      layers_.push_back({.k = k,
                         .v = memory_.back().data(),
                         .k_page_bytes = bytes.k,
                         .v_page_bytes = bytes.v,
                         .type = tensor::KvType::kF32,
                         .pool = 0});
    }
    std::vector<int32_t> pages(static_cast<size_t>(n_pages));
    for (int32_t i = 0; i < n_pages; ++i) pages[static_cast<size_t>(i)] = i;
    std::shuffle(pages.begin(), pages.end(), std::mt19937(11));
    for (int32_t s = 0; s < n_sequences; ++s) {
      const auto begin = pages.begin() + s * pages_per_sequence;
      pages_.emplace_back(begin, begin + pages_per_sequence);
    }
    for (const std::vector<int32_t>& sequence : pages_) tables_.push_back({sequence});
  }

  tensor::KvView view() const {
    return {.layers = layers_, .tables = tables_, .n_sequences = static_cast<int32_t>(tables_.size())};
  }
  void give_back(int32_t sequence, size_t page_index) {
    pages_[static_cast<size_t>(sequence)][page_index] = tensor::kNoPage;
  }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<tensor::KvLayerView> layers_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<tensor::PageTable> tables_;
};

// A batch that owns its vectors.
struct Rows {
  std::vector<int32_t> tokens, sequences, slots, positions, outputs;
  std::vector<int32_t> visible_ends = {};  // as in tensor::Batch

  // Adds slots [begin, end) of a sequence; the token of slot s is first_token + s. Every row's logits are wanted.
  void append(int32_t sequence, int32_t begin, int32_t end, int32_t first_token = 0) {
    for (int32_t slot = begin; slot < end; ++slot) {
      outputs.push_back(static_cast<int32_t>(tokens.size()));
      tokens.push_back(first_token + slot);
      sequences.push_back(sequence);
      slots.push_back(slot);
      positions.push_back(slot);
    }
  }

  // Slots [begin, end) of every sequence here see each other in both directions, as an image's rows do.
  void add_image(int32_t begin, int32_t end) {
    for (size_t row = visible_ends.size(); row < slots.size(); ++row) visible_ends.push_back(slots[row] + 1);
    for (size_t row = 0; row < slots.size(); ++row) {
      if (slots[row] >= begin && slots[row] < end) visible_ends[row] = end;
    }
  }

  tensor::Batch batch(const tensor::KvView& kv = {}) const {
    return {.tokens = tokens,
            .sequences = sequences,
            .slots = slots,
            .positions = positions,
            .outputs = outputs,
            .visible_ends = visible_ends,
            .kv = kv};
  }
};

// Runs once and gives `wanted`, row after row.
inline std::vector<float> run_for(const TestProgram& p, const Rows& rows, ValueId wanted,
                                  const tensor::KvView& kv = {}) {
  std::vector<float> result;
  const Observer observer = [&](ValueId id, MatView<const float> value) {
    if (id != wanted) return;
    for (int64_t r = 0; r < value.rows; ++r) result.insert(result.end(), value.row(r), value.row(r) + value.cols);
  };
  const auto executable = p.compile({.max_rows = 256, .max_outputs = 256});
  const int64_t n_outputs = static_cast<int64_t>(rows.outputs.size());
  executable->run(rows.batch(kv), {.logits = {.data = nullptr, .rows = n_outputs, .cols = 0, .stride = 0}}, &observer);
  return result;
}

}  // namespace tempo9::backends
