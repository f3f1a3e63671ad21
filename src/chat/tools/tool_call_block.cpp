#include "chat/tools/tool_call_block.h"

#include "chat/tools/call_object.h"
#include "chat/tools/xml_function.h"

namespace tempo9::chat::tools {
namespace {

// At the tag inside reasoning: whether a call follows it.
Task<bool> is_block(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  in.advance(kToolCallOpen.size());
  co_await in.skip_space();
  const bool is_json = co_await in.at("{");
  const bool is_call = is_json || co_await in.at("<function=");
  begin.rewind();
  co_return is_call;
}

// The element at the cursor. kNoCall: the cursor is where it was.
Task<CallResult> read_element(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  const int c = co_await in.peek();
  CallResult result = CallResult::kNoCall;
  if (c == '{') {
    result = co_await read_call_object(context, context.out, CallForm::kMarked, kToolCallClose);
  } else if (c == '[') {
    result = co_await read_call_array(context, context.out, kToolCallClose);
  } else if (co_await in.at("<function")) {
    result = co_await read_xml_function(context, context.out);
  }
  if (result == CallResult::kNoCall) begin.rewind();
  co_return result;
}

// Between elements: separators, and braces too many.
Task<> skip_separators(TextSource& in) {
  for (;;) {
    co_await in.skip_space();
    const int c = co_await in.peek();
    if (c != ',' && c != '}' && c != ';') break;
    in.advance(1);
  }
}

}  // namespace

const ReasoningTags kThinkTags = {
    .open = "<think>", .close = "</think>", .call_open = kToolCallOpen, .is_call = is_block};

Task<bool> skip_fence(TextSource& in) {
  if (!co_await in.at("```")) co_return false;
  in.advance(3);
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0 || c == '\n' || c == '{' || c == '[' || c == '<') break;
    in.advance(1);
  }
  co_return true;
}

Task<> read_tool_call_block(ParseContext& context) {
  TextSource& in = context.in;
  {
    TextSource::Checkpoint begin(in);
    in.advance(kToolCallOpen.size());
    co_await in.skip_space();
    if (co_await skip_fence(in)) co_await in.skip_space();
    const CallResult first = co_await read_element(context);
    if (first == CallResult::kNoCall) {
      begin.rewind();
      context.pass_content(kToolCallOpen.size());
      co_return;
    }
  }
  while (!context.has_enough_calls()) {
    co_await skip_separators(in);
    const CallResult next = co_await read_element(context);
    if (next == CallResult::kNoCall) break;
  }
  co_await skip_fence(in);
  co_await skip_tag(in, kToolCallClose);
  context.is_line_start = true;
}

Task<> read_content_and_calls(ParseContext& context, bool at_block, OtherCallForm other) {
  constexpr size_t kResponse = 0;
  constexpr size_t kBlock = 1;
  const Marker all[] = {{kToolResponse}, {kToolCallOpen}, {other.open, true}};
  const std::span<const Marker> markers = std::span(all).first(other.open.empty() ? 2 : 3);
  const bool ended_reasoning = at_block;
  for (;;) {
    size_t found = kBlock;
    if (!at_block) {
      const size_t first = context.out.n_calls() > 0 ? kResponse : kBlock;
      const size_t index = co_await pass_content_until(context, markers.subspan(first));
      if (index == kNoMarker) co_return;
      found = first + index;
    }
    at_block = false;
    if (found == kBlock) co_await read_tool_call_block(context);
    if (found > kBlock) co_await other.read(context);
    context.is_over = found == kResponse || context.has_enough_calls();
    if (context.is_over) co_return;
    if (ended_reasoning) co_await skip_tag(context.in, kThinkTags.close);
  }
}

}  // namespace tempo9::chat::tools
