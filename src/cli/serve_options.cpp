#include "cli/serve_options.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "chat/known_templates.h"
#include "cli/kv_type.h"
#include "engine/speculation/options.h"

namespace tempo9::cli {

namespace {

// Checks without the text that CLI11 would put between the flag and what it means.
CLI::Validator in_range(int64_t min, int64_t max) {
  CLI::Range range(min, max);
  range.description("");
  return range;
}

CLI::Validator one_of(std::vector<std::string> names) {
  CLI::IsMember member(std::move(names));
  member.description("");
  return member;
}

// "auto" or a depth.
CLI::Validator is_speculation_depth() {
  const auto problem = [](const std::string& text) -> std::string {
    int64_t depth = 0;
    const bool is_depth = CLI::detail::lexical_cast(text, depth) && depth >= 0 && depth <= engine::kMaxDepth;
    return text == "auto" || is_depth ? ""
                                      : fmt::format("{} is neither auto nor from 0 to {}", text, engine::kMaxDepth);
  };
  return CLI::Validator(problem, "");
}

std::string names_of_templates() {
  std::vector<std::string_view> names;
  for (const chat::KnownTemplate& known : chat::known_templates()) names.push_back(known.name);
  const std::string_view last = names.back();
  names.pop_back();
  return fmt::format("{} or {}", fmt::join(names, ", "), last);
}

void add_model_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--gguf,FILE", options.gguf, "Model file (the first part of a split one); --gguf may be left out")
      ->type_name("PATH")
      ->group("Model");
  app.add_option("--ollama", options.ollama, "A model that Ollama has pulled; without a tag it is :latest")
      ->type_name("MODEL[:TAG]")
      ->group("Model");
  app.add_flag("--list-ollama", options.list_ollama, "Print what Ollama has pulled, and end")->group("Model");
  app.add_option("--chat-template", options.chat_template,
                 "Jinja chat template to use instead of the model file's own: a file, or " + names_of_templates())
      ->group("Model")
      ->type_name("FILE|NAME");
  app.add_option(
         "--graph", options.graph,
         "File with the model's compute graph, made if it is not there; off: none; default: in the cache folder")
      ->type_name("PATH")
      ->group("Model");
  app.add_option("--tower", options.tower, "Folder of the vision tower that looks at images (tempo9 tower export)")
      ->type_name("DIR")
      ->group("Model");
  app.add_option("--name", options.name, "What the model lists report; default: the file's name, or Ollama's")
      ->type_name("STRING")
      ->group("Model");
}

void add_serving_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--port", options.port, "Port on 127.0.0.1; 0 takes a free one and prints it")
      ->type_name("N")
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--max-length", options.max_length, "Context length, clamped to what the model declares")
      ->type_name("N")
      ->check(in_range(1, int64_t{1} << 31))
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--max-batch", options.max_batch, "Requests that run at once; 1 serves one after the other")
      ->type_name("N")
      ->check(in_range(1, 1024))
      ->capture_default_str()
      ->group("Serving");
  CLI::AsSizeValue size(/*kb_is_1000=*/true);
  size.description("");
  app.add_option("--memory", options.memory_bytes,
                 "Memory for everything but the weights, as 4G or 800M; default: half of what they leave")
      ->type_name("SIZE")
      ->transform(size)
      ->group("Serving");
  app.add_flag("--log-text", options.log_text, "Log what the model writes, as it wrote it")->group("Serving");
  add_speculation_option(app, options.speculation)->group("Serving");
  app.add_option("--log-level", options.log_level, "error, warn, info or debug")
      ->type_name("LEVEL")
      ->check(one_of({"error", "warn", "info", "debug"}))
      ->capture_default_str()
      ->group("Serving");
}

void add_compute_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--backend", options.backend, "cpu, or reference: slow, exact, for comparison")
      ->type_name("NAME")
      ->check(one_of({"cpu", "reference"}))
      ->capture_default_str()
      ->group("Compute");
  app.add_option("--threads", options.n_threads, "Compute threads; 0: one per physical core")
      ->type_name("N")
      ->check(in_range(0, 1024))
      ->capture_default_str()
      ->group("Compute");
  add_kv_type_option(app, options.kv_type)->group("Compute");
  app.add_option("--isa", options.isa, "Instruction set; default: the best one here (or TEMPO9_ISA)")
      ->type_name("NAME")
      ->group("Compute");
}

}  // namespace

CLI::Option* add_speculation_option(CLI::App& app, std::string& depth) {
  return app
      .add_option(
          "--speculation-k", depth,
          "Most tokens to guess ahead of each step, which never changes an answer; auto: as many as pay; 0: none")
      ->type_name("N|auto")
      ->check(is_speculation_depth())
      ->capture_default_str();
}

int64_t speculation_depth(const std::string& depth) { return depth == "auto" ? engine::kMaxDepth : std::stoll(depth); }

void add_serve_options(CLI::App& app, ServeOptions& options) {
  add_model_options(app, options);
  add_serving_options(app, options);
  add_compute_options(app, options);
}

}  // namespace tempo9::cli
