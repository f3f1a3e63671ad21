// What the server says of its one model: /api/version, tags, ps, show and pull. Spec api 6.1.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "server/dialects/ollama.h"
#include "server/field_reader.h"
#include "server/worker_answer.h"

namespace tempo9::server {

namespace {

// Parses as a version, so that clients do not turn away, and claims to be no release of Ollama.
constexpr std::string_view kOllamaVersion = "0.12.0-tempo9";
// The model is not unloaded as long as the process lives.
constexpr std::string_view kNever = "2318-01-01T00:00:00Z";

// "8.2B": what fits one decimal before the unit.
std::string parameter_size(int64_t n_parameters) {
  const auto n = static_cast<double>(n_parameters);
  if (n >= 1e9) return fmt::format("{:.1f}B", n / 1e9);
  if (n >= 1e6) return fmt::format("{:.1f}M", n / 1e6);
  return fmt::format("{:.1f}K", n / 1e3);
}

Json details_json(const ModelCard& model) {
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", model.family},
          {"families", {model.family}},
          {"parameter_size", parameter_size(model.n_parameters)},
          {"quantization_level", model.quantization},
          {"context_length", model.context_length},
          {"embedding_length", model.embedding_length}};
}

Json capabilities_json(const App& app) {
  Json capabilities = {"completion", "tools"};
  if (app.context.images) capabilities.push_back("vision");
  if (app.context.chat_format.can_think()) capabilities.push_back("thinking");
  return capabilities;
}

Json entry_json(const ModelCard& model) {
  return {{"name", model.name},
          {"model", model.name},
          {"size", model.size_bytes},
          {"digest", model.digest},
          {"details", details_json(model)}};
}

// One "name   value" a line, as Ollama's own store has them.
std::string parameters_text(const App& app) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}{:<30} {}", text.empty() ? "" : "\n", name, value);
  };
  if (const auto eos = app.context.tokenizer.eos()) {
    add("stop", dump_json(std::string(app.context.tokenizer.token_text(*eos))));
  }
  add("num_ctx", fmt::format("{}", app.context.engine.context_length()));
  const SamplingDefaults& sampling = app.context.sampling_defaults;
  const auto add_known = [&](std::string_view name, const auto& value) {
    if (value) add(name, fmt::format("{}", *value));
  };
  add_known("temperature", sampling.temperature);
  add_known("top_k", sampling.top_k);
  add_known("top_p", sampling.top_p);
  add_known("min_p", sampling.min_p);
  add_known("repeat_penalty", sampling.repetition_penalty);
  return text;
}

// The file's metadata, with what clients compute from it. Always an object: some crash on null.
Json model_info_json(const App& app, bool is_verbose) {
  const ModelCard& model = app.context.model;
  Json info = model.metadata ? model.metadata(is_verbose) : Json::object();
  info["general.architecture"] = model.family;
  info["general.parameter_count"] = model.n_parameters;
  if (!info.contains("general.file_type")) info["general.file_type"] = nullptr;
  info[model.family + ".context_length"] = app.context.engine.context_length();
  info[model.family + ".embedding_length"] = model.embedding_length;
  if (!info.contains(model.family + ".block_count")) info[model.family + ".block_count"] = model.n_layers;
  return info;
}

// The name in a request's body, which only says which of the models is meant.
Result<Json> parse_named(std::string body) {
  T9_TRY(document, parse_ollama_object(std::move(body)));
  FieldReader fields(document);
  fields.find_string("model");
  fields.find_string("name");
  fields.find_bool("verbose");
  fields.find_bool("stream");
  T9_TRY_VOID(fields.result());
  return document;
}

Result<http::Response> show(std::string body, const App& app) {
  T9_TRY(document, parse_named(std::move(body)));
  FieldReader fields(document);
  const ModelCard& model = app.context.model;
  Json shown = {{"modelfile", fmt::format("FROM {}\n# served by tempo9 from a GGUF file, as it is\n", model.name)},
                {"parameters", parameters_text(app)},
                {"template", model.chat_template},
                {"details", details_json(model)},
                {"model_info", model_info_json(app, fields.find_bool("verbose").value_or(false))},
                {"capabilities", capabilities_json(app)},
                {"modified_at", rfc3339(model.created_s)}};
  if (!model.license.empty()) shown["license"] = model.license;
  return ollama_response(dump_json(shown));
}

std::string_view without_latest(std::string_view name) {
  constexpr std::string_view kLatest = ":latest";
  return name.ends_with(kLatest) ? name.substr(0, name.size() - kLatest.size()) : name;
}

// Set-up wizards pull the model that they are going to ask; the one that is here needs no pulling.
Result<http::Response> pull(std::string body, const App& app) {
  T9_TRY(document, parse_named(std::move(body)));
  FieldReader fields(document);
  const auto model = fields.find_string("model");
  const std::string name = model ? *model : fields.find_string("name").value_or("");
  if (without_latest(name) != without_latest(app.context.model.name)) {
    return fail(
        Error(ErrorCode::kUnsupported, "pull is not supported by this server").with_reason("unsupported_endpoint"));
  }
  http::Response response = ollama_response("{\"status\":\"success\"}\n");
  if (fields.find_bool("stream").value_or(true)) response.headers = {{"Content-Type", "application/x-ndjson"}};
  return response;
}

template <Result<http::Response> (*kAnswer)(std::string body, const App& app)>
std::unique_ptr<http::Answer> answer_body(http::Request request, const App& app) {
  const std::string id = request.id;
  return answer_on_worker(app, id, write_ollama_error, [body = std::move(request.body), &app](const auto&) mutable {
    return kAnswer(std::move(body), app);
  });
}

}  // namespace

std::unique_ptr<http::Answer> handle_ollama_version(http::Request, std::string, const App&) {
  return http::answer_with(ollama_response(dump_json({{"version", kOllamaVersion}})));
}

std::unique_ptr<http::Answer> handle_ollama_tags(http::Request, std::string, const App& app) {
  Json entry = entry_json(app.context.model);
  entry["modified_at"] = rfc3339(app.context.model.created_s);
  entry["capabilities"] = capabilities_json(app);
  return http::answer_with(ollama_response(dump_json({{"models", Json::array({std::move(entry)})}})));
}

std::unique_ptr<http::Answer> handle_ollama_ps(http::Request, std::string, const App& app) {
  Json entry = entry_json(app.context.model);
  entry["expires_at"] = kNever;
  entry["size_vram"] = app.context.model.size_bytes;
  entry["context_length"] = app.context.engine.context_length();
  return http::answer_with(ollama_response(dump_json({{"models", Json::array({std::move(entry)})}})));
}

std::unique_ptr<http::Answer> handle_ollama_show(http::Request request, std::string, const App& app) {
  return answer_body<show>(std::move(request), app);
}

std::unique_ptr<http::Answer> handle_ollama_pull(http::Request request, std::string, const App& app) {
  return answer_body<pull>(std::move(request), app);
}

}  // namespace tempo9::server
