#include "cli/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "kv/cache.h"

namespace tempo9::cli {
namespace {

// Bounds the buffer of logits: with a vocabulary of 262144 it is 64 MiB.
constexpr int64_t kMaxOutputsPerPass = 64;

Result<void> check_input(const models::Model& model, std::span<const int32_t> tokens, std::span<const int32_t> rows) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < model.info.n_vocab) continue;
    return fail(ErrorCode::kInvalidInput,
                fmt::format("token {} is outside the vocabulary of {}", token, model.info.n_vocab));
  }
  int32_t previous = -1;
  for (const int32_t row : rows) {
    if (row <= previous || static_cast<size_t>(row) >= tokens.size()) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("row {} after row {}: rows must ascend and be below the {} tokens", row, previous,
                              tokens.size()));
    }
    previous = row;
  }
  return {};
}

// The part of the rows that lies in one pass: [begin, end) of the tokens, and which of them are wanted.
struct Pass {
  int64_t begin = 0;
  int64_t end = 0;
  std::vector<int32_t> outputs;  // from `begin`
};

// The longest pass from `begin` that keeps the limits. `rows` are the wanted ones not below `begin`.
Pass next_pass(int64_t begin, int64_t n_tokens, int64_t chunk, std::span<const int32_t> rows) {
  Pass pass{.begin = begin, .end = std::min(begin + chunk, n_tokens), .outputs = {}};
  for (const int32_t row : rows) {
    if (row >= pass.end) break;
    if (static_cast<int64_t>(pass.outputs.size()) == kMaxOutputsPerPass) {
      pass.end = row;
      break;
    }
    pass.outputs.push_back(static_cast<int32_t>(row - begin));
  }
  return pass;
}

}  // namespace

Result<void> evaluate(backends::Backend& backend, const models::Model& model, std::span<const int32_t> tokens,
                      std::span<const int32_t> rows, const EvaluateOptions& options, const LogitsSink& sink) {
  T9_CHECK(options.chunk > 0);
  T9_TRY_VOID(check_input(model, tokens, rows));
  const int64_t n_tokens = static_cast<int64_t>(tokens.size());
  const int64_t chunk = std::min(options.chunk, std::max<int64_t>(n_tokens, 1));
  const int64_t max_outputs = std::min(chunk, kMaxOutputsPerPass);
  T9_TRY(executable, backend.compile(model.program, model.weights, {.max_rows = chunk, .max_outputs = max_outputs}));
  T9_TRY(cache, kv::Cache::create(backend, model.program.kv_layers, model.program.state_layers,
                                  {.type = options.kv_type.value_or(backend.kv_types().front()),
                                   .max_tokens = std::max<int64_t>(n_tokens, 1),
                                   .max_sequences = 1}));
  T9_TRY(sequence, cache->add_sequence());

  const int64_t n_vocab = model.info.n_vocab;
  std::vector<float> logits(static_cast<size_t>(max_outputs * n_vocab));
  const std::vector<int32_t> sequences(static_cast<size_t>(chunk), 0);
  std::vector<int32_t> slots(tokens.size());
  std::iota(slots.begin(), slots.end(), 0);

  for (int64_t begin = 0; begin < n_tokens;) {
    const Pass pass = next_pass(begin, n_tokens, chunk, rows);
    const size_t first = static_cast<size_t>(pass.begin);
    const size_t n_rows = static_cast<size_t>(pass.end - pass.begin);
    T9_TRY_VOID(cache->grow(sequence, pass.end));
    const tensor::Batch batch{.tokens = tokens.subspan(first, n_rows),
                              .sequences = std::span(sequences).first(n_rows),
                              .slots = std::span(slots).subspan(first, n_rows),
                              .positions = std::span(slots).subspan(first, n_rows),
                              .outputs = pass.outputs,
                              .kv = cache->view({&sequence, 1}),
                              .states = cache->states({&sequence, 1})};
    const tensor::MatView<float> out{
        .data = logits.data(), .rows = batch.n_outputs(), .cols = n_vocab, .stride = n_vocab};
    executable->run(batch, {.logits = out});
    cache->set_length(sequence, pass.end);
    if (!pass.outputs.empty()) T9_TRY_VOID(sink(out));
    rows = rows.subspan(pass.outputs.size());
    begin = pass.end;
  }
  return {};
}

namespace {

struct LogSoftmax {
  double max = 0.0;
  double log_sum = 0.0;
  explicit LogSoftmax(std::span<const float> row)
      : max(static_cast<double>(*std::max_element(row.begin(), row.end()))) {
    double sum = 0.0;
    for (const float x : row) sum += std::exp(static_cast<double>(x) - max);
    log_sum = std::log(sum);
  }
  double operator()(float x) const { return static_cast<double>(x) - max - log_sum; }
};

double kl_divergence(std::span<const float> reference, std::span<const float> logits) {
  const LogSoftmax p(reference);
  const LogSoftmax q(logits);
  double kl = 0.0;
  for (size_t i = 0; i < reference.size(); ++i) kl += std::exp(p(reference[i])) * (p(reference[i]) - q(logits[i]));
  return kl;
}

}  // namespace

Agreement compare_logits(std::span<const float> logits, std::span<const float> reference, int64_t n_vocab) {
  T9_CHECK(n_vocab > 0 && logits.size() == reference.size() && logits.size() % static_cast<size_t>(n_vocab) == 0);
  Agreement agreement;
  double all_errors = 0.0;
  double all_squares = 0.0;
  const size_t width = static_cast<size_t>(n_vocab);
  for (size_t begin = 0; begin < logits.size(); begin += width) {
    const auto row = logits.subspan(begin, width);
    const auto expected = reference.subspan(begin, width);
    double errors = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < width; ++i) {
      const double difference = static_cast<double>(row[i]) - static_cast<double>(expected[i]);
      errors += difference * difference;
      squares += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
    }
    all_errors += errors;
    all_squares += squares;
    agreement.worst_row_rms = std::max(agreement.worst_row_rms, std::sqrt(errors / squares));
    agreement.mean_kl += kl_divergence(expected, row);
    agreement.n_argmax_equal += std::max_element(row.begin(), row.end()) - row.begin() ==
                                std::max_element(expected.begin(), expected.end()) - expected.begin();
    ++agreement.n_rows;
  }
  agreement.relative_rms = std::sqrt(all_errors / all_squares);
  if (agreement.n_rows > 0) agreement.mean_kl /= static_cast<double>(agreement.n_rows);
  return agreement;
}

}  // namespace tempo9::cli
