// For models without a dialect of their own, Gemma 3 among them: the Hermes form that the prompt asks for, and what
// they write instead. Spec tool-calling 3.6, 3.8.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "chat/tools/call_object.h"
#include "chat/tools/dialects.h"
#include "chat/tools/python_call.h"
#include "chat/tools/tool_call_block.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::string_view kToolCode = "```tool_code";

bool fits(std::string_view) { return true; }

Task<CallResult> read_json_calls(ParseContext& context) {
  const int c = co_await context.in.peek();
  if (c == '[') co_return co_await read_call_array(context, context.out, {});
  co_return co_await read_call_object(context, context.out, CallForm::kMarked, {});
}

// At '{' or '[': calls, all with declared names.
Task<bool> is_json_calls(ParseContext& context) {
  if (co_await context.in.at("[")) co_return co_await is_call_array(context);
  AnswerSink nowhere;
  const CallResult result = co_await read_call_object(context, nowhere, CallForm::kGuessed, {});
  co_return result == CallResult::kComplete;
}

// JSON that is the whole answer, in a code fence or bare.
Task<bool> read_json_answer(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  const bool is_tool_code = co_await in.at(kToolCode);
  const bool is_fenced = !is_tool_code && co_await skip_fence(in);
  co_await in.skip_space();
  const size_t json = in.position();
  const int c = co_await in.peek();
  bool is_answer = (c == '{' || c == '[') && co_await is_json_calls(context);
  if (is_answer) {
    co_await in.skip_space();
    if (is_fenced && co_await in.at(kFence)) in.advance(kFence.size());
    co_await in.skip_space();
    const int behind = co_await in.peek();
    is_answer = behind < 0 && !in.was_cut();
  }
  if (!is_answer) {
    begin.rewind();
    co_return false;
  }
  in.rewind(json);
  co_await read_json_calls(context);
  in.advance(in.ahead().size());
  co_return true;
}

// The text of the code block at the cursor, which is then behind it. Nothing when it does not close.
Task<std::optional<std::string>> read_code_block(TextSource& in) {
  in.advance(kToolCode.size());
  TextSource::Checkpoint begin(in);
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0) co_return std::nullopt;
    if (c == '`' && co_await in.at(kFence)) break;
    in.advance(1);
  }
  std::string text(begin.text());
  in.advance(kFence.size());
  co_return text;
}

// At the fence of a tool_code block: its calls, or the fence as content.
Task<> read_tool_code(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  const auto text = co_await read_code_block(in);
  const auto calls = text ? parse_python_call_lines(*text) : std::nullopt;
  const auto is_declared = [&](const PythonCall& call) { return context.tools.resolve(call.name) != nullptr; };
  if (!calls || !std::ranges::all_of(*calls, is_declared)) {
    const bool was_read_to_the_end = !text;
    begin.rewind();
    context.pass_content(was_read_to_the_end ? in.ahead().size() : kToolCode.size());
    co_return;
  }
  for (const PythonCall& call : *calls) {
    write_python_call(context.out, call, context.tools.resolve(call.name));
    if (context.has_enough_calls()) break;
  }
}

Task<> read_answer(ParseContext& context) {
  const bool is_call = co_await read_reasoning(context, kThinkTags);
  const bool is_json = !is_call && co_await is_json_content(context, kToolCallOpen);
  if (!context.has_tools() || is_json) {
    co_await pass_content_until(context, {});
    co_return;
  }
  if (!is_call && co_await read_json_answer(context)) co_return;
  co_await read_content_and_calls(context, is_call, {.open = kToolCode, .read = read_tool_code});
}

constexpr std::string_view kMarkers[] = {"<think>", "</think>", kToolCallOpen, kToolCallClose, kToolResponse};

}  // namespace

const Dialect kGeneric = {.name = "generic",
                          .fits = fits,
                          .markers = kMarkers,
                          .reasoning_opener = "<think>",
                          .reasoning_open = "<think>",
                          .reasoning_close = "</think>",
                          .reasoning_cut = "\n</think>\n\n",
                          .read_answer = read_answer};

}  // namespace tempo9::chat::tools
