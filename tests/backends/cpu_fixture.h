// Programs for the CPU backend, and what must hold for each: agreement with the reference, and equal bits over
// everything that must not matter.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "backends/cpu/cpu.h"
#include "backends/reference_fixture.h"
#include "kernels/kernels.h"
#include "quant/quant.h"

namespace tempo9::backends {

inline WeightId random_matrix(TestProgram& p, tensor::DType dtype, int64_t cols, int64_t rows, float sigma = 0.06f,
                              int64_t depth = 1) {
  const int64_t n = cols * rows * depth;
  const std::vector<float> values =
      random_floats(static_cast<size_t>(n), static_cast<uint32_t>(p.program.weights.size()), sigma);
  std::vector<std::byte> bytes(tensor::row_bytes(dtype, cols) * static_cast<size_t>(rows * depth));
  quant::find_type(dtype)->encode(values.data(), bytes.data(), n);
  return p.weight(dtype, cols, rows, std::move(bytes), depth);
}

inline const tensor::Value& value_of(const TestProgram& p, ValueId id) {
  return p.program.values[static_cast<size_t>(id)];
}

inline ValueId project(TestProgram& p, ValueId x, int64_t rows, tensor::DType dtype, bool biased = false) {
  const tensor::Value in = value_of(p, x);
  tensor::MatMul op{.x = x, .weight = random_matrix(p, dtype, in.cols, rows), .out = p.value(rows, in.rows)};
  if (biased) op.bias = p.weight(random_floats(static_cast<size_t>(rows), 31, 0.1f), rows);
  return p.add(op);
}

inline ValueId norm(TestProgram& p, ValueId x, int64_t group = 0) {
  const tensor::Value in = value_of(p, x);
  const int64_t size = group > 0 ? group : in.cols;
  std::vector<float> weight = random_floats(static_cast<size_t>(size), 7, 0.2f);
  for (float& w : weight) w += 1.0f;
  return p.add(tensor::RmsNorm{
      .x = x, .weight = p.weight(weight, size), .out = p.value(in.cols, in.rows), .eps = 1e-5f, .group = size});
}

inline ValueId add(TestProgram& p, ValueId a, ValueId b) {
  const tensor::Value in = value_of(p, a);
  return p.add(tensor::Add{.a = a, .b = b, .out = p.value(in.cols, in.rows)});
}

// Makes the norm and projection of x to `n_vocab` columns the logits.
inline void end_program(TestProgram& p, ValueId x, int64_t n_vocab, tensor::DType dtype) {
  x = p.add(tensor::SelectOutputs{.x = x, .out = p.value(value_of(p, x).cols, tensor::RowSet::kOutputs)});
  p.program.logits = project(p, norm(p, x), n_vocab, dtype);
}

// How many sequences there are, and how many first pages of the first one are those of all.
struct Sharing {
  int32_t n_sequences = 2;
  int32_t n_pages = 0;
};

// Pages in a shuffled order for the program's type of keys and values, and states. Fresh memory is zero, as the cache
// gives it.
class Memory {
 public:
  Memory(Backend& backend, const TestProgram& p, const Sharing& sharing, int32_t pages_per_sequence)
      : n_sequences_(sharing.n_sequences) {
    const int32_t n_sequences = n_sequences_;
    const Program& program = p.program;
    const tensor::KvType type = p.kv_type.value_or(backend.kv_types().front());
    const int32_t n_pages = n_sequences * pages_per_sequence;
    for (const tensor::KvLayerSpec& spec : program.kv_layers) {
      const KvPageBytes bytes = backend.kv_page_bytes(spec, type);
      std::byte* parts[2];
      const size_t sizes[2] = {bytes.k, bytes.v};
      for (int i = 0; i < 2; ++i) {
        memory_.push_back(*backend.reserve(sizes[i] * static_cast<size_t>(n_pages)));
        parts[i] = memory_.back().data();
      }
      layers_.push_back(
          {.k = parts[0], .v = parts[1], .k_page_bytes = bytes.k, .v_page_bytes = bytes.v, .type = type, .pool = 0});
    }
    std::vector<int32_t> order(static_cast<size_t>(n_pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    for (int32_t s = 0; s < n_sequences; ++s) {
      const auto begin = order.begin() + s * pages_per_sequence;
      pages_.emplace_back(begin, begin + pages_per_sequence);
      std::copy_n(pages_.front().begin(), sharing.n_pages, pages_.back().begin());
    }
    for (const auto& pages : pages_) tables_.push_back({pages});
    for (const tensor::StateLayerSpec& spec : program.state_layers) {
      for (int32_t s = 0; s < n_sequences; ++s) {
        memory_.push_back(*backend.reserve(static_cast<size_t>(spec.floats()) * sizeof(float)));
        states_.push_back(reinterpret_cast<float*>(memory_.back().data()));
      }
    }
  }
  tensor::KvView kv() const { return {layers_, tables_, n_sequences_}; }
  tensor::StateView states() const { return {states_, n_sequences_}; }

 private:
  const int32_t n_sequences_;
  std::vector<Buffer> memory_;
  std::vector<tensor::KvLayerView> layers_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<tensor::PageTable> tables_;
  std::vector<float*> states_;
};

inline std::vector<std::string> isas_here() {
  std::vector<std::string> names;
  for (const kernels::Isa& isa : kernels::all_isas()) {
    if (isa.runs_here()) names.emplace_back(isa.name);
  }
  return names;
}

inline std::unique_ptr<Backend> cpu(int n_threads = 2, const std::string& isa = "", Tiling tiling = Tiling::kBehind) {
  return *make_cpu_backend({.n_threads = n_threads, .isa = isa, .tiling = tiling});
}

using Bits = std::vector<uint32_t>;
inline Bits bits_of(std::span<const float> values) {
  Bits bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Logits of each (sequence, slot) that the steps ask for, followed by the row of Program::hidden if there is one.
using Results = std::map<std::pair<int32_t, int32_t>, std::vector<float>>;

// Three planes of positions that follow from the slots, as around an image.
inline std::vector<int32_t> planes_of(const std::vector<int32_t>& slots) {
  std::vector<int32_t> positions = slots;
  for (const int32_t slot : slots) positions.push_back(slot / 3);
  for (const int32_t slot : slots) positions.push_back(2 * slot % 11);
  return positions;
}

// A row for Batch::hidden that follows from the token.
inline std::vector<float> hidden_rows(const std::vector<int32_t>& tokens, int64_t cols) {
  std::vector<float> rows;
  for (const int32_t token : tokens) {
    const std::vector<float> row = random_floats(static_cast<size_t>(cols), static_cast<uint32_t>(1000 + token));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

inline int64_t input_cols(const Program& program) {
  for (const tensor::Op& op : program.ops) {
    if (const auto* input = std::get_if<tensor::Input>(&op)) {
      return program.values[static_cast<size_t>(input->out)].cols;
    }
  }
  return 0;
}

inline Results run_steps(Backend& backend, const TestProgram& p, const std::vector<Rows>& steps, int32_t pages = 4,
                         const Observer* observer = nullptr, const Sharing& sharing = {}) {
  const Program& program = p.program;
  const Memory memory(backend, p, sharing, pages);
  auto executable = *backend.compile(program, p.views(), {.max_rows = 1100, .max_outputs = 256});
  const int64_t n_vocab = value_of(p, program.logits).cols;
  const int64_t n_input = input_cols(program);
  const int64_t n_hidden = program.hidden == tensor::kNone ? 0 : value_of(p, program.hidden).cols;
  Results result;
  for (const Rows& rows : steps) {
    const auto n_outputs = std::ssize(rows.outputs);
    const auto n_rows = std::ssize(rows.tokens);
    std::vector<float> logits_memory(static_cast<size_t>(n_outputs * (n_vocab + 3)));  // wider than the vocabulary
    std::vector<float> hidden_memory(static_cast<size_t>(n_rows * (n_hidden + 5)));
    const MatView<float> logits{logits_memory.data(), n_outputs, n_vocab, n_vocab + 3};
    const MatView<float> hidden{hidden_memory.data(), n_rows, n_hidden, n_hidden + 5};
    const std::vector<int32_t> positions = program.rope_axes.empty() ? rows.positions : planes_of(rows.slots);
    std::vector<float> inputs = hidden_rows(rows.tokens, n_input);
    tensor::Batch batch = rows.batch(memory.kv());
    batch.positions = positions;
    batch.states = memory.states();
    batch.hidden = {inputs.data(), n_rows, n_input, n_input};
    RunOutputs outputs{.logits = logits};
    if (n_hidden > 0) outputs.hidden = hidden;
    executable->run(batch, outputs, observer);
    for (int64_t i = 0; i < n_outputs; ++i) {
      const auto row = static_cast<size_t>(rows.outputs[static_cast<size_t>(i)]);
      std::vector<float>& values = result[{rows.sequences[row], rows.slots[row]}];
      const auto append = [&](std::span<const float> more) { values.insert(values.end(), more.begin(), more.end()); };
      append(logits.row_span(i));
      append(hidden.row_span(static_cast<int64_t>(row)));
    }
  }
  return result;
}

inline void expect_same_bits(const Results& got, const Results& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (const auto& [row, values] : expected) {
    ASSERT_EQ(bits_of(got.at(row)), bits_of(values)) << what << ", sequence " << row.first << " slot " << row.second;
  }
}

// Two sequences as prompts in one batch.
inline Rows prompts(int32_t n_tokens) {
  Rows rows;
  rows.append(0, 0, n_tokens);
  rows.append(1, 0, n_tokens - 10, 10);
  return rows;
}

// The same in chunks of rows of both sequences.
inline std::vector<Rows> in_chunks(int32_t n_tokens, int32_t chunk) {
  std::vector<Rows> steps;
  for (int32_t begin = 0; begin < n_tokens; begin += chunk) {
    Rows rows;
    rows.append(0, begin, std::min(begin + chunk, n_tokens));
    if (begin < n_tokens - 10) rows.append(1, begin, std::min(begin + chunk, n_tokens - 10), 10);
    steps.push_back(rows);
  }
  return steps;
}

// Each sequence on its own, a token at a time.
inline std::vector<Rows> token_by_token(int32_t n_tokens) {
  std::vector<Rows> steps;
  for (int32_t sequence : {0, 1}) {
    for (int32_t slot = 0; slot < n_tokens - 10 * sequence; ++slot) {
      steps.emplace_back();
      steps.back().append(sequence, slot, slot + 1, 10 * sequence);
    }
  }
  return steps;
}

// Relative RMS error against the reference backend.
inline double error_of(Backend& backend, const TestProgram& p, int32_t n_tokens) {
  const auto reference = make_reference_backend();
  const Results expected = run_steps(*reference, p, {prompts(n_tokens)});
  const Results got = run_steps(backend, p, {prompts(n_tokens)});
  double error = 0.0, size = 0.0;
  for (const auto& [row, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(static_cast<double>(got.at(row)[i] - values[i]), 2);
      size += std::pow(static_cast<double>(values[i]), 2);
    }
  }
  EXPECT_GT(size, 0.0);
  return std::sqrt(error / size);
}

inline void expect_equal_over_threads_and_chunks(const TestProgram& p, int32_t n_tokens) {
  const Results expected = run_steps(*cpu(1), p, {prompts(n_tokens)});
  for (int n_threads = 1; n_threads <= 8; ++n_threads) {
    const auto backend = cpu(n_threads);
    expect_same_bits(run_steps(*backend, p, {prompts(n_tokens)}), expected, backend->description());
    for (int32_t chunk : {7, 32, 64}) {
      if (n_threads > 3 && chunk > 7) continue;
      expect_same_bits(run_steps(*backend, p, in_chunks(n_tokens, chunk)), expected,
                       backend->description() + " in chunks of " + std::to_string(chunk));
    }
    if (n_threads > 3) continue;
    expect_same_bits(run_steps(*backend, p, token_by_token(n_tokens)), expected,
                     backend->description() + " token by token");
  }
}

inline void expect_equal_over_isas(const TestProgram& p, int32_t n_tokens) {
  const Results expected = run_steps(*cpu(1, "scalar"), p, {prompts(n_tokens)});
  for (const std::string& isa : isas_here()) {
    for (const Tiling tiling : {Tiling::kNever, Tiling::kBefore}) {
      const std::string layout = isa + (tiling == Tiling::kNever ? " in place" : " in tiles");
      expect_same_bits(run_steps(*cpu(2, isa, tiling), p, {prompts(n_tokens)}), expected, layout);
      expect_same_bits(run_steps(*cpu(2, isa, tiling), p, in_chunks(n_tokens, 1)), expected,
                       layout + ", two rows at a time");
    }
  }
}

// A run with an observer takes another plan, with other steps and other memory.
inline void expect_an_observer_changes_nothing(const TestProgram& p, int32_t n_tokens) {
  const auto backend = cpu();
  for (const std::vector<Rows>& steps : {std::vector<Rows>{prompts(n_tokens)}, token_by_token(n_tokens)}) {
    std::map<ValueId, int64_t> rows_seen;
    const Observer observer = [&](ValueId id, MatView<const float> value) {
      EXPECT_EQ(value.cols, value_of(p, id).cols);
      rows_seen[id] += value.rows;
      for (int64_t r = 0; r < value.rows; ++r) {
        for (int64_t c = 0; c < value.cols; ++c) ASSERT_TRUE(std::isfinite(value.row(r)[c])) << id;
      }
    };
    expect_same_bits(run_steps(*backend, p, steps, 4, &observer), run_steps(*backend, p, steps), "observed");
    EXPECT_EQ(rows_seen.size(), p.program.values.size());
    for (const auto& [id, n] : rows_seen) EXPECT_EQ(n, 2 * n_tokens - 10) << id;
  }
}

}  // namespace tempo9::backends
