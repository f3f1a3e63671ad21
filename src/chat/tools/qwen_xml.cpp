// Qwen XML: Qwen3-Coder, Qwen3.5 and later. Spec tool-calling 3.2.
#include "chat/tools/dialects.h"
#include "chat/tools/tool_call_block.h"
#include "chat/tools/xml_function.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kFunctionOpen = "<function=";

bool fits(std::string_view template_text) {
  return template_text.find(kToolCallOpen) != std::string_view::npos &&
         template_text.find(kFunctionOpen) != std::string_view::npos;
}

// A function without <tool_call> before it: a call if it is whole and its name declared, else content.
Task<> read_bare_function(ParseContext& context) {
  TextSource& in = context.in;
  {
    TextSource::Checkpoint begin(in);
    const bool is_call = co_await is_whole_xml_function(context);
    const bool was_read_to_the_end = in.has_ended() && in.ahead().empty();
    begin.rewind();
    if (!is_call) {
      // What was tried to the end of the text need not be tried again for the functions in it.
      context.pass_content(was_read_to_the_end ? in.ahead().size() : kFunctionOpen.size());
      co_return;
    }
  }
  co_await read_xml_function(context, context.out);
  co_await skip_tag(in, kToolCallClose);
  context.is_line_start = true;
}

Task<> read_answer(ParseContext& context) {
  const bool is_call = co_await read_reasoning(context, kThinkTags);
  const bool is_json = !is_call && co_await is_json_content(context, kToolCallOpen);
  if (!context.has_tools() || is_json) {
    co_await pass_content_until(context, {});
    co_return;
  }
  co_await read_content_and_calls(context, is_call, {.open = kFunctionOpen, .read = read_bare_function});
}

constexpr std::string_view kMarkers[] = {"<think>", "</think>", kToolCallOpen, kToolCallClose, kToolResponse};

}  // namespace

const Dialect kQwenXml = {.name = "qwen-xml",
                          .fits = fits,
                          .markers = kMarkers,
                          .reasoning_opener = "<think>",
                          .reasoning_open = "<think>",
                          .reasoning_close = "</think>",
                          .reasoning_cut = "\n</think>\n\n",
                          .read_answer = read_answer};

}  // namespace tempo9::chat::tools
