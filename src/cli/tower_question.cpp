#include "cli/tower_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu.h"
#include "base/utf8.h"
#include "cli/evaluate.h"
#include "cli/graph_cache.h"
#include "gguf/file.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"
#include "vision/gates.h"

namespace tempo9::cli {
namespace {

constexpr const char* kQuestion = "What can be seen in this image?";
constexpr int kAnswerTokens = 12;
constexpr int32_t kImageSide = 256;

// Where an image stands in a prompt. Models without such tokens of their own (made for tests) get an image all the
// same: its rows take the place of whatever token stands there.
struct Markers {
  std::vector<int32_t> before, after;
  int32_t placeholder = 0;
  std::string name;
};

std::optional<int32_t> find_token(const tokenizer::Tokenizer& tokenizer, std::string_view text) {
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    if (tokenizer.token_text(id) == text) return id;
  }
  return std::nullopt;
}

Markers find_markers(const tokenizer::Tokenizer& tokenizer) {
  constexpr std::array<const char*, 3> kKnown[] = {
      {"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"},
      {"<start_of_image>", "<image_soft_token>", "<end_of_image>"},
      {"<|image>", "<|image|>", "<image|>"},
  };
  for (const auto& [begin, placeholder, end] : kKnown) {
    const auto begin_id = find_token(tokenizer, begin), id = find_token(tokenizer, placeholder),
               end_id = find_token(tokenizer, end);
    if (begin_id && id && end_id)
      return {.before = {*begin_id}, .after = {*end_id}, .placeholder = *id, .name = placeholder};
  }
  return {.before = {}, .after = {}, .placeholder = static_cast<int32_t>(tokenizer.n_tokens() - 1), .name = "none"};
}

// One conversation about one image.
class Question {
 public:
  Question(const models::Model& model, backends::Backend& backend, const Markers& markers,
           std::span<const int32_t> question, const vision::TokenGrid& grid)
      : model_(model), backend_(backend), markers_(markers), grid_(grid), tokens_(markers.before) {
    tokens_.insert(tokens_.end(), static_cast<size_t>(grid.n_tokens()), markers.placeholder);
    tokens_.insert(tokens_.end(), markers.after.begin(), markers.after.end());
    first_row_ = static_cast<int32_t>(tokens_.size() - 1);
    tokens_.insert(tokens_.end(), question.begin(), question.end());
  }

  // Logits from the image's last row on.
  Result<std::vector<float>> predict(const vision::ImageEmbeddings& image) const {
    std::vector<int32_t> rows;
    for (int32_t row = first_row_; row < std::ssize(tokens_); ++row) rows.push_back(row);
    const EvaluateOptions options{
        .images = ImageRows{.token = markers_.placeholder,
                            .height = grid_.height,
                            .width = grid_.width,
                            .embeddings = {image.rows.data(), grid_.n_tokens(), image.cols, image.cols}}};
    std::vector<float> logits;
    T9_TRY_VOID(
        evaluate(backend_, model_, tokens_, rows, options, [&](tensor::MatView<const float> part) -> Result<void> {
          for (int64_t r = 0; r < part.rows; ++r) {
            logits.insert(logits.end(), part.row(r), part.row(r) + part.cols);
          }
          return {};
        }));
    return logits;
  }

  // Appends the most likely tokens; gives them.
  Result<std::vector<int32_t>> answer(const vision::ImageEmbeddings& image, const tokenizer::Tokenizer& tokenizer) {
    std::vector<int32_t> answer;
    while (std::ssize(answer) < kAnswerTokens) {
      T9_TRY(logits, predict(image));
      const auto last = logits.end() - model_.info.n_vocab;
      auto token = static_cast<int32_t>(std::max_element(last, logits.end()) - last);
      if (token == markers_.placeholder || tokenizer.is_end_of_generation(token)) break;
      answer.push_back(token);
      tokens_.push_back(token);
    }
    return answer;
  }

 private:
  const models::Model& model_;
  backends::Backend& backend_;
  const Markers& markers_;
  const vision::TokenGrid grid_;
  std::vector<int32_t> tokens_;
  int32_t first_row_ = 0;
};

Result<nlohmann::ordered_json> ask(const models::Model& model, const tokenizer::Tokenizer& tokenizer, int n_threads,
                                   vision::ImageEncoder& tower, vision::ImageEncoder& exact) {
  const int64_t cols = models::embedding_cols(model.program);
  if (cols != exact.embedding_cols()) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("takes image rows of {} values; the projector gives {}", cols, exact.embedding_cols()));
  }
  T9_TRY(backend, backends::make_cpu_backend({.n_threads = n_threads}));
  T9_TRY(question, tokenizer.encode(kQuestion));
  const vision::Image image = vision::make_sample_image(kImageSide, kImageSide, 7);
  T9_TRY(expected_rows, exact.encode(image, {}));
  T9_TRY(rows, tower.encode(image, {}));
  const Markers markers = find_markers(tokenizer);
  std::erase(question, markers.placeholder);
  Question conversation(model, *backend, markers, question, expected_rows.grid);
  T9_TRY(answer, conversation.answer(expected_rows, tokenizer));
  T9_TRY(expected, conversation.predict(expected_rows));
  T9_TRY(logits, conversation.predict(rows));
  const Agreement agreement = compare_logits(logits, expected, model.info.n_vocab);
  if (!(agreement.mean_kl <= kMaxQuestionKl)) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("end to end: predictions differ by a mean KL of {:.2e}, may by {}", agreement.mean_kl,
                            kMaxQuestionKl));
  }
  return nlohmann::ordered_json{{"question", kQuestion},
                                {"image_token", markers.name},
                                {"answer", sanitize_utf8(tokenizer.decode(answer))},
                                {"mean_kl", agreement.mean_kl},
                                {"relative_rms", agreement.relative_rms},
                                {"argmax_equal", agreement.n_argmax_equal},
                                {"argmax_rows", agreement.n_rows}};
}

Result<nlohmann::ordered_json> load_and_ask(const std::string& path, int n_threads, vision::ImageEncoder& tower,
                                            vision::ImageEncoder& exact) {
  T9_TRY(file, gguf::File::open(path));
  T9_TRY(tokenizer, tokenizer::Tokenizer::create(file->metadata()));
  T9_TRY(model, load_model(std::move(file), "off"));
  return ask(model, *tokenizer, n_threads, tower, exact);
}

}  // namespace

Result<nlohmann::ordered_json> ask_about_image(const std::string& model, int n_threads, vision::ImageEncoder& tower,
                                               vision::ImageEncoder& exact) {
  auto report = load_and_ask(model, n_threads, tower, exact);
  if (!report) return fail(std::move(report).error().context(model));
  return report;
}

}  // namespace tempo9::cli
