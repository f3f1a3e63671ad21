// tempo9 parse: what a model wrote, as reasoning, content and typed calls; or one parameter's text as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "chat/json_text.h"
#include "chat/tools/dialect.h"
#include "chat/tools/typing.h"
#include "cli/commands.h"
#include "cli/input.h"

namespace tempo9::cli {
namespace {

using chat::Json;
using chat::tools::AnswerEvent;

struct ParseOptions {
  std::string dialect;
  std::string tools;
  std::string type;
  size_t chunk = 0;  // bytes; 0: all at once
  std::string start = "maybe";
  std::string end = "stop";
};

Result<Json> read_json(const std::string& path) {
  T9_TRY(text, read_file(path));
  auto json = chat::parse_json_text(text);
  if (!json) return fail(ErrorCode::kInvalidInput, fmt::format("{}: not JSON", path));
  return *std::move(json);
}

// An array of tools in OpenAI's form, or an object that has it as "tools".
Result<std::shared_ptr<const chat::tools::ToolSet>> read_tools(const std::string& path) {
  if (path.empty()) return nullptr;
  T9_TRY(json, read_json(path));
  const Json tools = json.is_object() ? json.value("tools", Json()) : json;
  if (!tools.is_array()) return fail(ErrorCode::kInvalidInput, fmt::format("{}: no array of tools", path));
  return std::make_shared<const chat::tools::ToolSet>(tools.get<std::vector<Json>>());
}

// The joined events, in the form of the collection of tool cases.
class Answer {
 public:
  void add(const std::vector<AnswerEvent>& events) {
    for (const AnswerEvent& event : events) add(event);
  }

  std::string to_json() const {
    const Json json = {
        {"reasoning", reasoning_}, {"content", content_}, {"calls", calls_}, {"incomplete", is_incomplete_}};
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  void add(const AnswerEvent& event) {
    switch (event.kind) {
      case AnswerEvent::Kind::kReasoning:
        reasoning_ += event.text;
        break;
      case AnswerEvent::Kind::kContent:
        content_ += event.text;
        break;
      case AnswerEvent::Kind::kCallBegin:
        calls_.push_back({{"name", event.text}, {"arguments_json", ""}});
        break;
      case AnswerEvent::Kind::kCallArguments:
        calls_.back()["arguments_json"].get_ref<std::string&>() += event.text;
        break;
      case AnswerEvent::Kind::kCallEnd:
        is_incomplete_ = !event.is_complete;
        break;
    }
  }

  std::string reasoning_;
  std::string content_;
  Json calls_ = Json::array();
  bool is_incomplete_ = false;
};

Result<std::string> parse_answer(const ParseOptions& options, const std::string& text) {
  using namespace chat::tools;
  T9_TRY(tools, read_tools(options.tools));
  AnswerParser parser(
      *find_dialect(options.dialect),
      {.tools = tools, .start = options.start == "reasoning" ? Start::kInReasoning : Start::kMaybeReasoning});
  Answer answer;
  const size_t chunk = options.chunk > 0 ? options.chunk : std::max<size_t>(text.size(), 1);
  for (size_t at = 0; at < text.size(); at += chunk) {
    answer.add(parser.feed(std::string_view(text).substr(at, chunk)));
  }
  answer.add(parser.finish(options.end == "length" ? EndReason::kLength : EndReason::kStop));
  return answer.to_json();
}

Result<std::string> type_parameter(const std::string& path, const std::string& raw) {
  T9_TRY(json, read_json(path));
  if (!json.is_object() || !json.contains("parameters") || !json.value("parameter", Json()).is_string()) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: an object with parameters and parameter is needed", path));
  }
  const chat::tools::Tool tool("", json["parameters"]);
  const auto allowed = tool.find_parameter(json["parameter"].get<std::string>());
  return chat::tools::type_raw_text(raw, allowed ? &*allowed : nullptr);
}

int run(const ParseOptions& options) {
  const std::string input = read_stdin();
  const auto output = options.type.empty() ? parse_answer(options, input) : type_parameter(options.type, input);
  if (!output) {
    fmt::print(stderr, "tempo9: {}\n", output.error().message());
    return kExitFailure;
  }
  std::cout << *output << '\n' << std::flush;
  return std::cout ? kExitOk : kExitFailure;
}

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const auto* dialect : chat::tools::all_dialects()) names.emplace_back(dialect->name);
  return names;
}

}  // namespace

void add_parse_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ParseOptions>();
  CLI::App* command =
      app.add_subcommand("parse", "Raw model text on standard input to its reasoning, content and tool calls, as JSON");
  auto* what = command->add_option_group("what", "What is parsed");
  auto* dialect = what->add_option("--dialect", options->dialect, "Tool dialect in which an answer is written")
                      ->check(CLI::IsMember(dialect_names()));
  what->add_option("--type", options->type,
                   "File with parameters (a tool's schema) and parameter (a name): standard input is that parameter's "
                   "raw text, the output its JSON value");
  what->require_option(1);
  command->add_option("--tools", options->tools, "File with an array of tools in OpenAI's form")->needs(dialect);
  command->add_option("--chunk", options->chunk, "Feed so many bytes at a time; 0: all at once")->needs(dialect);
  command->add_option("--start", options->start, "reasoning: the prompt has opened it")
      ->check(CLI::IsMember({"maybe", "reasoning"}))
      ->needs(dialect);
  command->add_option("--end", options->end, "length: the token limit ended the answer")
      ->check(CLI::IsMember({"stop", "length"}))
      ->needs(dialect);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tempo9::cli
