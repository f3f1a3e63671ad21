// tempo9 render: a chat body to the prompt text, or to its token ids, with the template of a model file or one of its
// own.
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "base/utf8.h"
#include "chat/chat_format.h"
#include "chat/json_text.h"
#include "chat/openai_messages.h"
#include "chat/prompt_tokens.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::cli {
namespace {

using Clock = std::chrono::system_clock;

struct RenderOptions {
  std::string gguf;
  std::string template_path;
  std::string now;
  bool raw_context = false;
  bool ids = false;
};

// The tokenizer is null for a template of its own.
struct TemplateSource {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  chat::ChatFormat format;
};

Result<TemplateSource> load_source(const RenderOptions& options) {
  if (!options.template_path.empty()) {
    T9_TRY(text, read_file(options.template_path));
    return TemplateSource{nullptr, chat::ChatFormat::from_source(text, "", "")};
  }
  T9_TRY(file, gguf::File::open(options.gguf, {.load_parts = false}));
  auto tokenizer = tokenizer::Tokenizer::create(file->metadata());
  if (!tokenizer) return fail(std::move(tokenizer).error().context(options.gguf));
  auto format = chat::ChatFormat::create(file->metadata(), **tokenizer);
  return TemplateSource{*std::move(tokenizer), std::move(format)};
}

// Local time, like the clock it stands for.
Result<Clock::time_point> parse_now(const std::string& text) {
  if (text.empty()) return Clock::now();
  std::tm local{};
  std::istringstream stream(text);
  stream >> std::get_time(&local, "%Y-%m-%dT%H:%M:%S");
  if (stream.fail()) return fail(ErrorCode::kInvalidInput, "--now: a time like 2026-11-30T12:34:56 is needed");
  local.tm_isdst = -1;
  return Clock::from_time_t(std::mktime(&local));
}

Result<chat::Rendered> render(const chat::ChatFormat& format, const RenderOptions& options, const std::string& input) {
  T9_TRY(now, parse_now(options.now));
  const auto json = chat::parse_json_text(sanitize_utf8(input));
  if (!json) return fail(ErrorCode::kInvalidInput, "standard input is not JSON");
  if (options.raw_context) return format.render_raw(*json, now);
  T9_TRY(conversation, chat::parse_openai_conversation(*json));
  return format.render(conversation, now);
}

Result<std::string> transform(const RenderOptions& options, const std::string& input) {
  T9_TRY(source, load_source(options));
  T9_TRY(prompt, render(source.format, options, input));
  if (!options.ids) return std::move(prompt.text);
  T9_TRY(ids, chat::encode_prompt(*source.tokenizer, prompt));
  return chat::Json(ids).dump() + "\n";
}

int run(const RenderOptions& options) {
  const auto output = transform(options, read_stdin());
  if (!output) {
    fmt::print(stderr, "tempo9: {}\n", output.error().message());
    return kExitFailure;
  }
  std::cout << *output << std::flush;
  return std::cout ? kExitOk : kExitFailure;
}

}  // namespace

void add_render_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RenderOptions>();
  CLI::App* command = app.add_subcommand(
      "render", "An OpenAI chat body on standard input to the prompt that the model is given, byte for byte");
  auto* source = command->add_option_group("template", "Where the chat template comes from");
  auto* gguf = source->add_option("--gguf", options->gguf, "Model file");
  auto* template_path = source->add_option("--template", options->template_path, "File with the template's text");
  source->require_option(1);
  command->add_flag("--raw-context", options->raw_context, "Standard input holds the template's variables themselves");
  command->add_option("--now", options->now, "Clock for the template, local time: 2026-11-30T12:34:56");
  command->add_flag("--ids", options->ids, "Print token ids as a JSON array")->needs(gguf)->excludes(template_path);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tempo9::cli
