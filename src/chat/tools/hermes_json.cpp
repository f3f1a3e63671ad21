// Hermes JSON: Qwen2.5, Qwen3, QwQ, Hermes 2 and 3, SmolLM. Spec tool-calling 3.1.
#include "chat/tools/call_object.h"
#include "chat/tools/dialects.h"
#include "chat/tools/tool_call_block.h"

namespace tempo9::chat::tools {
namespace {

bool fits(std::string_view template_text) { return template_text.find(kToolCallOpen) != std::string_view::npos; }

// An object without its tags that is the whole answer, save for a closing tag that stands alone.
Task<bool> is_bare_call(ParseContext& context) {
  TextSource& in = context.in;
  AnswerSink nowhere;
  const CallResult result = co_await read_call_object(context, nowhere, CallForm::kGuessed, kToolCallClose);
  if (result != CallResult::kComplete) co_return false;
  co_await skip_tag(in, kToolCallClose);
  co_await in.skip_space();
  const int c = co_await in.peek();
  co_return c < 0 && !in.was_cut();
}

Task<bool> read_bare_call(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  const size_t object_begin = in.position();
  if (!co_await in.at("{") || !co_await is_bare_call(context)) {
    begin.rewind();
    co_return false;
  }
  in.rewind(object_begin);
  co_await read_call_object(context, context.out, CallForm::kMarked, kToolCallClose);
  in.advance(in.ahead().size());
  co_return true;
}

Task<> read_answer(ParseContext& context) {
  const bool is_call = co_await read_reasoning(context, kThinkTags);
  const bool is_json = !is_call && co_await is_json_content(context, kToolCallOpen);
  if (!context.has_tools() || is_json) {
    co_await pass_content_until(context, {});
    co_return;
  }
  if (!is_call && co_await read_bare_call(context)) co_return;
  co_await read_content_and_calls(context, is_call, {});
}

constexpr std::string_view kMarkers[] = {"<think>", "</think>", kToolCallOpen, kToolCallClose, kToolResponse};

}  // namespace

const Dialect kHermesJson = {.name = "hermes-json",
                             .fits = fits,
                             .markers = kMarkers,
                             .reasoning_opener = "<think>",
                             .reasoning_open = "<think>",
                             .reasoning_close = "</think>",
                             .reasoning_cut = "\n</think>\n\n",
                             .read_answer = read_answer};

}  // namespace tempo9::chat::tools
