// Both forms of Mistral: a JSON list after [TOOL_CALLS] (7B v0.3, Nemo), and NAME[ARGS]{…} (Small 3.2, Devstral,
// Ministral 3). Models mix them, so that both dialects read both. Spec tool-calling 3.4.
#include <string>

#include "chat/tools/call_object.h"
#include "chat/tools/dialects.h"
#include "chat/tools/json_strings.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kToolCalls = "[TOOL_CALLS]";
constexpr std::string_view kArguments = "[ARGS]";
constexpr std::string_view kCallId = "[CALL_ID]";
constexpr std::string_view kToolResults = "[TOOL_RESULTS]";
constexpr size_t kMaxName = 256;

constexpr ReasoningTags kTags = {.open = "[THINK]", .close = "[/THINK]", .call_open = kToolCalls};

bool fits_json(std::string_view template_text) { return template_text.find(kToolCalls) != std::string_view::npos; }
bool fits_v13(std::string_view template_text) {
  return fits_json(template_text) && template_text.find(kArguments) != std::string_view::npos;
}

// A list without its marker that is the whole answer.
Task<bool> read_bare_list(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  const size_t list = in.position();
  if (co_await in.at("[") && co_await is_call_array(context)) {
    co_await in.skip_space();
    const int c = co_await in.peek();
    if (c < 0 && !in.was_cut()) {
      in.rewind(list);
      co_await read_call_array(context, context.out, {});
      in.advance(in.ahead().size());
      co_return true;
    }
  }
  begin.rewind();
  co_return false;
}

bool is_name(std::string_view text) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.' || c == ':' || c == '/';
  };
  return !text.empty() && std::ranges::all_of(text, is_part);
}

// Behind NAME[CALL_ID]id[ARGS], the cursor before the arguments. Empty when that is not what stands here.
Task<std::string> read_name(TextSource& in) {
  TextSource::Checkpoint begin(in);
  std::string name;
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0 || in.position() - begin.position() > kMaxName) co_return std::string();
    const bool is_mark = c == '[';
    if (c == '{') break;
    if (is_mark && co_await in.at(kArguments)) {
      if (name.empty()) name = begin.text();
      in.advance(kArguments.size());
      break;
    }
    if (is_mark && co_await in.at(kCallId)) name = begin.text();
    in.advance(1);
  }
  if (name.empty()) name = begin.text();
  const std::string_view trimmed = trim_json_space(name);
  co_return is_name(trimmed) ? std::string(trimmed) : std::string();
}

Task<CallResult> read_named_call(ParseContext& context) {
  TextSource& in = context.in;
  const std::string written = co_await read_name(in);
  if (written.empty()) co_return CallResult::kNoCall;
  const Tool* tool = context.tools.resolve(written);
  context.out.begin_call(tool ? tool->name() : written);
  co_await in.skip_space();
  const bool has_none = co_await in.at(kToolCalls);
  if (has_none) context.out.arguments("{}");
  const bool is_whole = has_none || co_await read_arguments(context, context.out, tool, {});
  context.out.end_call(is_whole);
  co_return is_whole ? CallResult::kComplete : CallResult::kBroken;
}

// At the marker. What is no call is content, with the marker.
Task<> read_marked_call(ParseContext& context) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  while (co_await in.at(kToolCalls)) {
    in.advance(kToolCalls.size());
    co_await in.skip_space();
  }
  const int c = co_await in.peek();
  CallResult result = CallResult::kNoCall;
  if (c == '[') {
    result = co_await read_call_array(context, context.out, {});
  } else if (c == '{') {
    result = co_await read_call_object(context, context.out, CallForm::kMarked, {});
  } else {
    result = co_await read_named_call(context);
  }
  if (result != CallResult::kNoCall) co_return;
  begin.rewind();
  context.pass_content(kToolCalls.size());
}

// After a list that was cut between its elements.
Task<> skip_list_separator(TextSource& in) {
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  if (co_await in.at(",")) {
    in.advance(1);
    co_await in.skip_space();
  } else {
    begin.rewind();
  }
}

Task<> read_answer(ParseContext& context) {
  bool is_call = co_await read_reasoning(context, kTags);
  const bool ended_reasoning = is_call;
  const bool is_json = !is_call && co_await is_json_content(context, kToolCalls);
  if (!context.has_tools() || is_json) {
    co_await pass_content_until(context, {});
    co_return;
  }
  if (!is_call && co_await read_bare_list(context)) co_return;
  for (;;) {
    if (!is_call) {
      const Marker markers[] = {{kToolCalls}, {kToolResults}};
      const size_t found = co_await pass_content_until(context, {markers, context.out.n_calls() > 0 ? 2u : 1u});
      if (found == kNoMarker) co_return;
      context.is_over = found == 1;
      if (context.is_over) co_return;
    }
    is_call = false;
    co_await read_marked_call(context);
    context.is_over = context.has_enough_calls();
    if (context.is_over) co_return;
    if (ended_reasoning) co_await skip_tag(context.in, kTags.close);
    if (context.out.n_calls() > 0) co_await skip_list_separator(context.in);
  }
}

constexpr std::string_view kMarkers[] = {kToolCalls, kArguments, kCallId,   kToolResults,
                                         "[THINK]",  "[/THINK]", "<think>", "</think>"};

}  // namespace

const Dialect kMistralJson = {.name = "mistral-json",
                              .fits = fits_json,
                              .markers = kMarkers,
                              .reasoning_opener = "[THINK]",
                              .reasoning_open = kTags.open,
                              .reasoning_close = kTags.close,
                              .reasoning_cut = kTags.close,
                              .read_answer = read_answer};

const Dialect kMistralV13 = {.name = "mistral-v13",
                             .fits = fits_v13,
                             .markers = kMarkers,
                             .reasoning_opener = "[THINK]",
                             .reasoning_open = kTags.open,
                             .reasoning_close = kTags.close,
                             .reasoning_cut = kTags.close,
                             .read_answer = read_answer};

}  // namespace tempo9::chat::tools
