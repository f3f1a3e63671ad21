// `tempo9 eval`: logits of given token ids, and how far they are from reference logits.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "base/mapped_file.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/evaluate.h"
#include "cli/graph_cache.h"
#include "cli/kv_type.h"
#include "cli/logging.h"
#include "gguf/file.h"
#include "models/model.h"
#include "tensor/kv_type_names.h"
#include "vision/decode/decode.h"
#include "vision/tower.h"

namespace tempo9::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EvalFlags {
  std::string gguf;
  std::string tokens;
  std::string logits;
  std::string mtp;
  std::string rows;
  std::string expect;
  std::string backend = "cpu";
  std::string isa;
  std::string kv_type;
  std::string graph;
  std::string embeddings;
  std::string image;
  std::string tower;
  int threads = 0;
  int64_t chunk = 512;
};

// Token ids to run and, where the file says so, the rows whose logits and drafts are wanted.
struct Input {
  std::vector<int32_t> tokens;
  std::vector<int32_t> rows;
  std::vector<int32_t> mtp_rows;
  std::optional<ImageRows> images;
  std::vector<float> embeddings;  // of images
};

Result<std::vector<int32_t>> read_ids(const Json& array, std::string_view what) {
  if (!array.is_array()) return fail(ErrorCode::kInvalidInput, fmt::format("{} must be an array", what));
  std::vector<int32_t> ids;
  for (const Json& element : array) {
    // Also refuses numbers that are negative or too large for the comparison in the wider type.
    if (!element.is_number_integer() || element < 0 || element > INT32_MAX) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("{}[{}] must be an integer from 0 to {}", what, ids.size(), INT32_MAX));
    }
    ids.push_back(element.get<int32_t>());
  }
  return ids;
}

Result<Json> read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: can't be read", path));
  Json json = Json::parse(file, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::kInvalidInput, fmt::format("{}: not JSON", path));
  return json;
}

// Either an array of ids, or an object with "tokens" and perhaps "rows" and "mtp_rows", as the goldens have it.
Result<Input> read_input(const std::string& path) {
  T9_TRY(json, read_json(path));
  Input input;
  if (json.is_object() && !json.contains("tokens")) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: has no \"tokens\"", path));
  }
  T9_TRY(tokens, read_ids(json.is_object() ? json["tokens"] : json, path + ": tokens"));
  input.tokens = std::move(tokens);
  for (const auto& [key, rows] : {std::pair{"rows", &input.rows}, std::pair{"mtp_rows", &input.mtp_rows}}) {
    if (!json.is_object() || !json.contains(key)) continue;
    T9_TRY(stored, read_ids(json[key], fmt::format("{}: {}", path, key)));
    *rows = std::move(stored);
  }
  return input;
}

std::vector<int32_t> all_rows(size_t n_tokens) {
  std::vector<int32_t> rows(n_tokens);
  for (size_t i = 0; i < n_tokens; ++i) rows[i] = static_cast<int32_t>(i);
  return rows;
}

// "all" or "0,5,7".
Result<std::vector<int32_t>> parse_rows(std::string_view text, size_t n_tokens) {
  if (text == "all") return all_rows(n_tokens);
  std::vector<int32_t> rows;
  const char* const end = text.data() + text.size();
  for (const char* pos = text.data(); pos < end;) {
    int32_t row = 0;
    const auto [next, error] = std::from_chars(pos, end, row);
    if (error != std::errc() || (next != end && *next != ',')) {
      return fail(ErrorCode::kInvalidInput, fmt::format("--rows {}: must be \"all\" or numbers and commas", text));
    }
    rows.push_back(row);
    pos = next == end ? end : next + 1;
  }
  return rows;
}

Result<std::unique_ptr<backends::Backend>> make_backend(const EvalFlags& flags) {
  if (flags.backend == "reference") return backends::make_reference_backend();
  return backends::make_cpu_backend({.n_threads = flags.threads, .isa = flags.isa});
}

Result<std::vector<float>> read_floats(const std::filesystem::path& path, size_t count) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: can't be read", path.string()));
  const auto size = static_cast<size_t>(file.tellg());
  if (size != count * sizeof(float)) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: has {} bytes, the rows and the vocabulary need {}",
                                                      path.string(), size, count * sizeof(float)));
  }
  std::vector<float> values(count);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(size));
  if (!file) return fail(ErrorCode::kIo, fmt::format("{}: short read", path.string()));
  return values;
}

// Where rows of logits go: into a file, into memory for a comparison, or both. (The logits of a long text may not fit
// in memory.)
class LogitsOutput {
 public:
  LogitsOutput(std::string path, bool keeps) : path_(std::move(path)), keeps_(keeps) {
    if (!path_.empty()) file_.open(path_, std::ios::binary | std::ios::trunc);
  }

  LogitsSink sink() {
    return [this](tensor::MatView<const float> logits) -> Result<void> {
      for (int64_t r = 0; r < logits.rows; ++r) {
        const std::span<const float> row = logits.row_span(r);
        if (!path_.empty()) {
          file_.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row.size_bytes()));
        }
        if (keeps_) kept_.insert(kept_.end(), row.begin(), row.end());
      }
      return {};
    };
  }

  Result<void> finish() {
    if (path_.empty() || file_.flush()) return {};
    return fail(ErrorCode::kIo, fmt::format("{}: can't be written", path_));
  }

  std::span<const float> kept() const { return kept_; }

 private:
  std::string path_;
  std::ofstream file_;
  bool keeps_;
  std::vector<float> kept_;
};

// The embeddings of image tokens from `path`; the recording says which token they stand for, how many there are and how
// wide, and the image's size in patches.
Result<void> read_images(const std::string& path, const std::string& recording, Input& input) {
  T9_TRY(json, read_json(recording));
  std::map<std::string_view, int64_t> numbers;
  for (const char* key : {"image_token_id", "image_tokens", "embedding_width", "grid_h", "grid_w"}) {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number_integer() || json[key] <= 0 ||
        json[key] > INT32_MAX) {
      return fail(ErrorCode::kInvalidInput, fmt::format("{}: --embeddings needs \"{}\" there", recording, key));
    }
    numbers[key] = json[key].get<int64_t>();
  }
  const int64_t n_rows = numbers["image_tokens"], n_cols = numbers["embedding_width"];
  T9_TRY(values, read_floats(path, static_cast<size_t>(n_rows * n_cols)));
  input.embeddings = std::move(values);
  ImageRows images{.token = static_cast<int32_t>(numbers["image_token_id"]),
                   .height = numbers["grid_h"],
                   .width = numbers["grid_w"],
                   .embeddings = {input.embeddings.data(), n_rows, n_cols, n_cols}};
  // A token covers a square of patches.
  while (images.height * images.width > n_rows) {
    images.height /= 2;
    images.width /= 2;
  }
  input.images = images;
  return {};
}

// The same from an image file: what the tower makes of it stands at the recording's image tokens.
Result<void> encode_image(const EvalFlags& flags, Input& input) {
  T9_TRY(json, read_json(flags.expect));
  if (!json.is_object() || !json.contains("image_token_id") || !json["image_token_id"].is_number_integer()) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: --image needs \"image_token_id\" there", flags.expect));
  }
  T9_TRY(file, MappedFile::open(flags.image));
  auto image = vision::decode_image({reinterpret_cast<const uint8_t*>(file.bytes().data()), file.size()});
  if (!image) return fail(std::move(image).error().context(flags.image));
  T9_TRY(tower, vision::Tower::open(flags.tower, {.n_threads = flags.threads}));
  T9_TRY(rows, tower->encode(*image, {}));
  input.embeddings = std::move(rows.rows);
  input.images = ImageRows{.token = json["image_token_id"].get<int32_t>(),
                           .height = rows.grid.height,
                           .width = rows.grid.width,
                           .embeddings = {input.embeddings.data(), rows.grid.n_tokens(), rows.cols, rows.cols}};
  return {};
}

// Reference logits lie beside the file that names their rows, in `name`.
Result<Agreement> compare_with(const std::string& expect, const char* name, std::span<const float> logits,
                               int64_t n_vocab) {
  T9_TRY(reference, read_floats(std::filesystem::path(expect).replace_filename(name), logits.size()));
  return compare_logits(logits, reference, n_vocab);
}

Result<void> check_expected(const std::string& expect, const Input& input, bool has_drafts) {
  T9_TRY(expected, read_input(expect));
  if (expected.tokens == input.tokens && expected.rows == input.rows &&
      (!has_drafts || expected.mtp_rows == input.mtp_rows)) {
    return {};
  }
  return fail(ErrorCode::kInvalidInput, fmt::format("{}: is about other tokens or rows", expect));
}

Json to_json(const Agreement& agreement) {
  return {{"relative_rms", agreement.relative_rms},
          {"worst_row_rms", agreement.worst_row_rms},
          {"mean_kl", agreement.mean_kl},
          {"argmax_equal", agreement.n_argmax_equal},
          {"argmax_rows", agreement.n_rows}};
}

Result<Input> read_tokens_and_rows(const EvalFlags& flags) {
  T9_TRY(input, read_input(flags.tokens.empty() ? flags.expect : flags.tokens));
  if (!flags.expect.empty()) {
    T9_TRY(expected, read_input(flags.expect));
    if (input.rows.empty()) input.rows = std::move(expected.rows);
    if (input.mtp_rows.empty()) input.mtp_rows = std::move(expected.mtp_rows);
  }
  if (!flags.rows.empty()) {
    T9_TRY(rows, parse_rows(flags.rows, input.tokens.size()));
    input.rows = std::move(rows);
  }
  if (input.rows.empty()) input.rows = all_rows(input.tokens.size());
  // The last row has no token after it, which a draft would need.
  if (input.mtp_rows.empty() && !input.tokens.empty()) input.mtp_rows = all_rows(input.tokens.size() - 1);
  return input;
}

// The part of the report that is about drafts.
Result<Json> run_drafts(const EvalFlags& flags, backends::Backend& backend, const models::Model& model,
                        const Input& input, const EvaluateOptions& options) {
  LogitsOutput drafts(flags.mtp, !flags.expect.empty());
  T9_TRY_VOID(evaluate_draft(backend, model, input.tokens, input.mtp_rows, options, drafts.sink()));
  T9_TRY_VOID(drafts.finish());
  Json report = {{"rows", input.mtp_rows.size()}};
  if (!flags.expect.empty()) {
    T9_TRY(agreement, compare_with(flags.expect, "mtp_logits.f32", drafts.kept(), model.info.n_vocab));
    report.update(to_json(agreement));
  }
  return report;
}

Result<Json> run(const EvalFlags& flags) {
  T9_TRY(input, read_tokens_and_rows(flags));
  T9_TRY(file, gguf::File::open(flags.gguf));
  T9_TRY(model, load_model(std::move(file), flags.graph));
  T9_TRY(backend, make_backend(flags));
  T9_TRY(kv_type, choose_kv_type(backend->kv_types(), flags.kv_type));

  const bool compares = !flags.expect.empty();
  if (!flags.embeddings.empty()) T9_TRY_VOID(read_images(flags.embeddings, flags.expect, input));
  if (!flags.image.empty()) T9_TRY_VOID(encode_image(flags, input));
  const EvaluateOptions options{.chunk = flags.chunk, .kv_type = kv_type, .images = input.images};
  if (compares) T9_TRY_VOID(check_expected(flags.expect, input, !flags.mtp.empty()));
  LogitsOutput logits(flags.logits, compares);
  const auto start = std::chrono::steady_clock::now();
  T9_TRY_VOID(evaluate(*backend, model, input.tokens, input.rows, options, logits.sink()));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  T9_TRY_VOID(logits.finish());

  Json report = {{"model", sanitize_utf8(flags.gguf)}, {"architecture", model.info.architecture},
                 {"backend", backend->description()},  {"kv_type", tensor::kv_type_name(kv_type)},
                 {"tokens", input.tokens.size()},      {"rows", input.rows.size()},
                 {"vocab", model.info.n_vocab},        {"seconds", elapsed.count()}};
  if (compares) {
    T9_TRY(agreement, compare_with(flags.expect, "logits.f32", logits.kept(), model.info.n_vocab));
    report.update(to_json(agreement));
  }
  if (!flags.mtp.empty()) {
    T9_TRY(drafts, run_drafts(flags, *backend, model, input, options));
    report["mtp"] = std::move(drafts);
  }
  return report;
}

}  // namespace

void add_eval_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<EvalFlags>();
  CLI::App* eval = app.add_subcommand("eval", "Compute the logits of given token ids");
  eval->add_option("--gguf", flags->gguf, "Model file")->required();
  auto* tokens =
      eval->add_option("--tokens", flags->tokens, "JSON: an array of ids, or an object with \"tokens\" (and \"rows\")");
  auto* logits = eval->add_option("--logits", flags->logits,
                                  "Where the logits go: little-endian f32, one line of the vocabulary's size per row");
  auto* mtp = eval->add_option("--mtp", flags->mtp,
                               "The same for what the model's draft block predicts: row i is the token at i + 2");
  auto* expect =
      eval->add_option("--expect", flags->expect,
                       "JSON as for --tokens with reference logits beside it, in logits.f32 (and mtp_logits.f32 for "
                       "\"mtp_rows\"): print how far off");
  eval->add_option("--rows", flags->rows, "Rows to write: \"all\" or I,J,... (default: those of the JSON, else all)");
  eval->add_option("--backend", flags->backend, "Backend")
      ->check(CLI::IsMember({"reference", "cpu"}))
      ->capture_default_str();
  eval->add_option("--threads,-t", flags->threads, "Threads of the cpu backend (0: one per core)")
      ->check(CLI::Range(0, 1024));
  eval->add_option("--isa", flags->isa, "Instruction set of the cpu backend (default: the best here)");
  add_kv_type_option(*eval, flags->kv_type);
  eval->add_option("--graph", flags->graph, "Graph file, or off (default: one in the cache folder)");
  eval->add_option("--embeddings", flags->embeddings,
                   "Rows of f32 for the image tokens, of a recording that --expect names")
      ->needs(expect);
  auto* tower = eval->add_option("--tower", flags->tower, "Vision tower that looks at --image");
  eval->add_option("--image", flags->image,
                   "Image for the image tokens of a recording that --expect names, instead of --embeddings")
      ->needs(expect)
      ->needs(tower)
      ->excludes("--embeddings");
  eval->add_option("--chunk", flags->chunk, "Rows of one pass at most")
      ->check(CLI::Range(int64_t{1}, int64_t{65536}))
      ->capture_default_str();
  eval->callback([=, &exit_code] {
    if (tokens->empty() && expect->empty()) throw CLI::RequiredError("--tokens or --expect");
    if (logits->empty() && mtp->empty() && expect->empty()) throw CLI::RequiredError("--logits, --mtp or --expect");
    set_up_logging("info");
    const auto report = run(*flags);
    if (!report) {
      fmt::print(stderr, "tempo9 eval: {}\n", sanitize_utf8(report.error().message()));
      exit_code = kExitFailure;
      return;
    }
    fmt::print("{}\n", report->dump(-1, ' ', false, Json::error_handler_t::replace));
  });
}

}  // namespace tempo9::cli
