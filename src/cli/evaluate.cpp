#include "cli/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
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

  std::span<const int32_t> of(std::span<const int32_t> tokens) const {
    return tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
};

// What tells image rows from text: which embedding each token has, if any, its positions, and what it sees.
struct Layout {
  std::vector<int32_t> embedding_of_row;          // empty without images
  std::vector<int32_t> visible_ends;              // as in tensor::Batch; empty unless images are seen whole
  std::array<std::vector<int32_t>, 3> positions;  // time, height, width
};

Result<Layout> lay_out(std::span<const int32_t> tokens, const models::Model& model,
                       const std::optional<ImageRows>& images) {
  Layout layout;
  const int64_t n_image_tokens = images ? std::ranges::count(tokens, images->token) : 0;
  if (images && (n_image_tokens != images->embeddings.rows || images->height * images->width <= 0 ||
                 n_image_tokens % (images->height * images->width) != 0 ||
                 images->embeddings.cols != models::embedding_cols(model.program))) {
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("{} image tokens, {} embeddings of {} columns, images of {} by {}; the model takes {} columns",
                    n_image_tokens, images->embeddings.rows, images->embeddings.cols, images->height, images->width,
                    models::embedding_cols(model.program)));
  }
  if (images && images->height * images->width > models::most_image_rows(model)) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("an image of {} rows: the model looks at an image as a whole, of {} rows at most",
                            images->height * images->width, models::most_image_rows(model)));
  }
  const bool is_spatial = !model.program.rope_axes.empty();
  int32_t next = 0;      // position of the next text token, or of the image
  int64_t in_image = 0;  // rows of the current image so far
  int32_t n_embedded = 0;
  const auto add = [&](int32_t time, int32_t height, int32_t width) {
    layout.positions[0].push_back(time);
    layout.positions[1].push_back(height);
    layout.positions[2].push_back(width);
  };
  const bool sees_whole = images && model.info.sees_whole_images;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool is_image = images && tokens[i] == images->token;
    if (sees_whole) {
      const int64_t rest = is_image ? images->height * images->width - in_image : 1;
      layout.visible_ends.push_back(static_cast<int32_t>(static_cast<int64_t>(i) + rest));
    }
    if (images) layout.embedding_of_row.push_back(is_image ? n_embedded++ : -1);
    if (is_image && is_spatial) {
      add(next, next + static_cast<int32_t>(in_image / images->width),
          next + static_cast<int32_t>(in_image % images->width));
    } else {
      add(next, next, next);
      ++next;
    }
    if (!is_image || ++in_image < images->height * images->width) continue;
    in_image = 0;
    if (is_spatial) next += static_cast<int32_t>(std::max(images->height, images->width));
  }
  return layout;
}

struct PassLimits {
  int64_t max_rows = 0;
  int64_t max_outputs = 0;
};

// The longest pass from `begin` that keeps the limits, and before it ends inside of an image that is seen whole; empty
// when there is none. `rows` are the wanted ones not below `begin`.
Pass next_pass(int64_t begin, int64_t n_tokens, const PassLimits& limits, std::span<const int32_t> rows,
               std::span<const int32_t> visible_ends = {}) {
  Pass pass{.begin = begin, .end = std::min(begin + limits.max_rows, n_tokens), .outputs = {}};
  if (std::ssize(rows) > limits.max_outputs) {
    pass.end = std::min<int64_t>(pass.end, rows[static_cast<size_t>(limits.max_outputs)]);
  }
  const auto cuts_an_image = [&](int64_t end) {
    return !visible_ends.empty() && end > begin && visible_ends[static_cast<size_t>(end - 1)] > end;
  };
  while (cuts_an_image(pass.end)) --pass.end;
  for (const int32_t row : rows) {
    if (row >= pass.end) break;
    pass.outputs.push_back(static_cast<int32_t>(row - begin));
  }
  return pass;
}

// A program and the cache of one sequence, to run passes over it in order.
class SequenceRun {
 public:
  static Result<SequenceRun> create(backends::Backend& backend, const tensor::Program& program,
                                    std::span<const tensor::WeightView> weights, int64_t n_tokens,
                                    const EvaluateOptions& options, bool sees_whole = false) {
    T9_CHECK(options.chunk > 0);
    SequenceRun run;
    run.chunk_ = std::min(options.chunk, std::max<int64_t>(n_tokens, 1));
    // The rows of an image that is seen whole are in one pass, with all that is wanted of them.
    const int64_t max_outputs = std::min(run.chunk_, sees_whole ? run.chunk_ : kMaxOutputsPerPass);
    run.max_outputs_ = max_outputs;
    T9_TRY(executable, backend.compile(program, weights, {.max_rows = run.chunk_, .max_outputs = max_outputs}));
    T9_TRY(cache, kv::Cache::create(backend, program.kv_layers, program.state_layers,
                                    {.type = options.kv_type.value_or(backend.kv_types().front()),
                                     .max_tokens = std::max<int64_t>(n_tokens, 1),
                                     .max_sequences = 1}));
    T9_TRY(sequence, cache->add_sequence());
    run.executable_ = std::move(executable);
    run.cache_ = std::move(cache);
    run.sequence_ = sequence;
    run.images_ = options.images;
    run.n_vocab_ = program.values[static_cast<size_t>(program.logits)].cols;
    run.logits_.resize(static_cast<size_t>(max_outputs * run.n_vocab_));
    run.sequences_.assign(static_cast<size_t>(run.chunk_), 0);
    run.slots_.resize(static_cast<size_t>(n_tokens));
    std::iota(run.slots_.begin(), run.slots_.end(), 0);
    return run;
  }

  PassLimits limits() const { return {.max_rows = chunk_, .max_outputs = max_outputs_}; }

  // One row per token; `hidden` where the program reads one. Gives the logits, valid until the next call.
  Result<tensor::MatView<const float>> run(const Pass& pass, std::span<const int32_t> tokens,
                                           tensor::MatView<const float> hidden, tensor::MatView<float> hidden_out,
                                           const Layout* layout = nullptr) {
    const size_t first = static_cast<size_t>(pass.begin);
    T9_TRY_VOID(cache_->grow(sequence_, pass.end));
    positions_.clear();
    const std::vector<int32_t>* planes = layout ? layout->positions.data() : &slots_;
    for (size_t p = 0; p < (layout ? 3u : 1u); ++p) {
      const auto plane = std::span(planes[p]).subspan(first, tokens.size());
      positions_.insert(positions_.end(), plane.begin(), plane.end());
    }
    tensor::Batch batch{
        .tokens = tokens,
        .sequences = std::span(sequences_).first(tokens.size()),
        .slots = std::span(slots_).subspan(first, tokens.size()),
        .positions = positions_,
        .outputs = pass.outputs,
        .kv = cache_->view({&sequence_, 1}),
        .states = cache_->states({&sequence_, 1}),
        .hidden = hidden,
    };
    if (layout && images_) {
      batch.embedding_of_row = std::span(layout->embedding_of_row).subspan(first, tokens.size());
      batch.embeddings = images_->embeddings;
      if (!layout->visible_ends.empty()) {
        batch.visible_ends = std::span(layout->visible_ends).subspan(first, tokens.size());
      }
    }
    const tensor::MatView<float> out{
        .data = logits_.data(), .rows = batch.n_outputs(), .cols = n_vocab_, .stride = n_vocab_};
    executable_->run(batch, {.logits = out, .hidden = hidden_out});
    cache_->set_length(sequence_, pass.end);
    return out;
  }

 private:
  int64_t chunk_ = 0;
  int64_t max_outputs_ = 0;
  int64_t n_vocab_ = 0;
  std::unique_ptr<backends::Executable> executable_;
  std::unique_ptr<kv::Cache> cache_;
  kv::SequenceId sequence_;
  std::vector<float> logits_;
  std::vector<int32_t> sequences_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> positions_;  // of a pass, plane after plane
  std::optional<ImageRows> images_;
};

// The hidden states that go from one program to the other in a pass.
class HiddenRows {
 public:
  HiddenRows(const tensor::Program& program, int64_t max_rows)
      : cols_(program.values[static_cast<size_t>(program.hidden)].cols),
        values_(static_cast<size_t>(max_rows * cols_)) {}

  tensor::MatView<float> first(int64_t rows) { return {values_.data(), rows, cols_, cols_}; }

 private:
  int64_t cols_;
  std::vector<float> values_;
};

}  // namespace

Result<void> evaluate(backends::Backend& backend, const models::Model& model, std::span<const int32_t> tokens,
                      std::span<const int32_t> rows, const EvaluateOptions& options, const LogitsSink& sink) {
  T9_TRY_VOID(check_input(model, tokens, rows));
  T9_TRY(layout, lay_out(tokens, model, options.images));
  const int64_t n_tokens = static_cast<int64_t>(tokens.size());
  const bool sees_whole = !layout.visible_ends.empty();
  T9_TRY(model_run, SequenceRun::create(backend, model.program, model.weights, n_tokens, options, sees_whole));
  for (int64_t begin = 0; begin < n_tokens;) {
    const Pass pass = next_pass(begin, n_tokens, model_run.limits(), rows, layout.visible_ends);
    if (pass.end == pass.begin) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("the image of {} rows at token {} does not fit a pass of {} rows",
                              options.images->height * options.images->width, begin, model_run.limits().max_rows));
    }
    T9_TRY(logits, model_run.run(pass, pass.of(tokens), {}, {}, options.images ? &layout : nullptr));
    if (!pass.outputs.empty()) T9_TRY_VOID(sink(logits));
    rows = rows.subspan(pass.outputs.size());
    begin = pass.end;
  }
  return {};
}

Result<void> evaluate_draft(backends::Backend& backend, const models::Model& model, std::span<const int32_t> tokens,
                            std::span<const int32_t> rows, const EvaluateOptions& options, const LogitsSink& sink) {
  if (!model.draft) return fail(ErrorCode::kUnsupported, "the model has no block that drafts");
  T9_TRY_VOID(check_input(model, tokens, rows));
  const int64_t n_rows = static_cast<int64_t>(tokens.size()) - 1;  // the last token is followed by none
  if (!rows.empty() && rows.back() >= n_rows) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("row {}: a draft needs the token after it, and there are {}", rows.back(), tokens.size()));
  }
  T9_TRY(model_run, SequenceRun::create(backend, model.program, model.weights, n_rows, options));
  T9_TRY(draft_run, SequenceRun::create(backend, model.draft->program, model.draft->weights, n_rows, options));
  HiddenRows hidden(model.program, model_run.limits().max_rows);
  for (int64_t begin = 0; begin < n_rows;) {
    const Pass pass = next_pass(begin, n_rows, model_run.limits(), rows);
    const Pass no_outputs{.begin = pass.begin, .end = pass.end, .outputs = {}};
    const tensor::MatView<float> states = hidden.first(pass.end - pass.begin);
    T9_TRY_VOID(model_run.run(no_outputs, pass.of(tokens), {}, states));
    T9_TRY(logits, draft_run.run(pass, pass.of(tokens.subspan(1)), states, {}));
    if (!pass.outputs.empty()) T9_TRY_VOID(sink(logits));
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
