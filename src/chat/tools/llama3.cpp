// Llama 3.1 to 3.3: JSON as the whole answer, <|python_tag|>, Python lists. Spec tool-calling 3.3.
#include <optional>
#include <string>
#include <vector>

#include "chat/tools/call_object.h"
#include "chat/tools/dialects.h"
#include "chat/tools/json_strings.h"
#include "chat/tools/python_call.h"
#include "chat/tools/tool_call_block.h"
#include "chat/tools/xml_function.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kToolResultHeader = "<|start_header_id|>ipython";
constexpr std::string_view kFunctionOpen = "<function=";
constexpr std::string_view kCodeTools[] = {"python", "code_interpreter", "ipython"};

bool fits(std::string_view template_text) {
  return template_text.find(kPythonTag) != std::string_view::npos ||
         template_text.find("Environment: ipython") != std::string_view::npos;
}

bool is_name_part(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

// Behind a list of Python calls with declared names that is the whole answer; else nothing.
Task<std::optional<std::vector<PythonCall>>> read_python_list(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  in.advance(1);
  co_await in.skip_space();
  // The first name decides early for most lists that are prose.
  TextSource::Checkpoint name(in);
  int c = co_await in.peek();
  while (is_name_part(c)) {
    in.advance(1);
    c = co_await in.peek();
  }
  if (c != '(' || !context.tools.find(name.text())) co_return std::nullopt;
  begin.rewind();
  if (!co_await skip_python_brackets(in)) co_return std::nullopt;
  const std::string text(begin.text());
  co_await in.skip_space();
  c = co_await in.peek();
  if (c >= 0 || in.was_cut()) co_return std::nullopt;
  auto calls = parse_python_call_list(text);
  if (!calls) co_return std::nullopt;
  for (const PythonCall& call : *calls) {
    if (!context.tools.find(call.name)) co_return std::nullopt;
  }
  co_return calls;
}

// At '[': JSON calls or Python calls that are the whole answer.
Task<bool> read_list(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  if (co_await is_call_array(context)) {
    co_await in.skip_space();
    const int c = co_await in.peek();
    if (c < 0 && !in.was_cut()) {
      begin.rewind();
      co_await read_call_array(context, context.out, {});
      co_return true;
    }
  }
  begin.rewind();
  const auto calls = co_await read_python_list(context);
  if (!calls) {
    begin.rewind();
    co_return false;
  }
  for (const PythonCall& call : *calls) write_python_call(context.out, call, context.tools.find(call.name));
  co_return true;
}

// A call at the cursor that no marker announces; it may stand at the beginning of the answer and after a call. The
// cursor stays when there is none.
Task<bool> read_unmarked_call(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  if (context.out.n_calls() > 0 && co_await in.at(";")) {
    in.advance(1);
    co_await in.skip_space();
  }
  const int c = co_await in.peek();
  bool is_call = false;
  if (c == '{') {
    is_call = co_await read_call_object(context, context.out, CallForm::kGuessed, {}) != CallResult::kNoCall;
  } else if (c == '[' && context.out.n_calls() == 0) {
    is_call = co_await read_list(context);
  } else if (co_await in.at(kFunctionOpen)) {
    const size_t function = in.position();
    if (co_await is_whole_xml_function(context)) {
      in.rewind(function);
      is_call = co_await read_xml_function(context, context.out) != CallResult::kNoCall;
    }
  }
  if (!is_call) begin.rewind();
  co_return is_call;
}

const Tool* find_code_tool(const ToolSet& tools) {
  for (const std::string_view name : kCodeTools) {
    const Tool* tool = tools.find(name);
    if (tool && !tool->only_string_parameter().empty()) return tool;
  }
  return nullptr;
}

// "NAME.call(…)" with a declared name. The cursor stays when there is none.
Task<bool> read_built_in_call(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  int c = co_await in.peek();
  while (is_name_part(c)) {
    in.advance(1);
    c = co_await in.peek();
  }
  constexpr std::string_view kCall = ".call";
  std::string name(begin.text());
  if (name.ends_with(kCall)) name.resize(name.size() - kCall.size());
  const Tool* tool = begin.text().ends_with(kCall) ? context.tools.find(name) : nullptr;
  if (c == '(' && tool && co_await skip_python_brackets(in)) {
    std::string_view text = begin.text();
    auto call = take_python_call(text);
    if (call && text.empty()) {
      write_python_call(context.out, *call, tool);
      co_return true;
    }
  }
  begin.rewind();
  co_return false;
}

// The rest of the answer is code.
Task<> read_code(ParseContext& context, const Tool& tool) {
  TextSource& in = context.in;
  context.out.begin_call(tool.name());
  context.out.arguments("{" + quote_json(tool.only_string_parameter()) + ":\"");
  while (co_await in.need(1)) {
    std::string json;
    append_escaped(json, in.ahead());
    context.out.arguments(json);
    in.advance(in.ahead().size());
  }
  if (!in.was_cut()) context.out.arguments("\"}");
  context.out.end_call(!in.was_cut());
}

// At the tag. What follows and is no call is content, without the tag.
Task<> read_tagged(ParseContext& context) {
  TextSource& in = context.in;
  in.advance(kPythonTag.size());
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  const int c = co_await in.peek();
  if (c == '{' && co_await read_call_object(context, context.out, CallForm::kMarked, {}) != CallResult::kNoCall) {
    co_return;
  }
  if (c == '[') {
    begin.rewind();
    co_await in.skip_space();
    if (co_await read_list(context)) co_return;
  }
  begin.rewind();
  if (co_await read_built_in_call(context)) co_return;
  const Tool* code_tool = find_code_tool(context.tools);
  if (code_tool && c >= 0 && c != '<') co_await read_code(context, *code_tool);
}

Task<> read_answer(ParseContext& context) {
  ReasoningTags tags = kThinkTags;
  tags.call_open = {};
  co_await read_reasoning(context, tags);
  if (!context.has_tools()) {
    co_await pass_content_until(context, {});
    co_return;
  }
  for (;;) {
    while (co_await read_unmarked_call(context)) {
      context.is_over = context.has_enough_calls();
      if (context.is_over) co_return;
    }
    const Marker markers[] = {{kPythonTag}, {kToolResultHeader}};
    const size_t found = co_await pass_content_until(context, markers);
    if (found == kNoMarker) co_return;
    context.is_over = found == 1;
    if (!context.is_over) co_await read_tagged(context);
    context.is_over = context.is_over || context.has_enough_calls();
    if (context.is_over) co_return;
  }
}

constexpr std::string_view kMarkers[] = {kPythonTag, "<|start_header_id|>", "<think>", "</think>"};

}  // namespace

const Dialect kLlama3 = {.name = "llama3",
                         .fits = fits,
                         .markers = kMarkers,
                         .reasoning_opener = "<think>",
                         .reasoning_open = "<think>",
                         .reasoning_close = "</think>",
                         .reasoning_cut = "\n</think>\n\n",
                         .read_answer = read_answer};

}  // namespace tempo9::chat::tools
