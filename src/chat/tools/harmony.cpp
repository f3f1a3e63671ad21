// gpt-oss: messages with a header that says who speaks to whom, and on which channel. Spec tool-calling 3.5.
#include <algorithm>
#include <string>

#include "chat/tools/call_object.h"
#include "chat/tools/dialects.h"
#include "chat/tools/json_strings.h"
#include "chat/tools/parse_context.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kStart = "<|start|>";
constexpr std::string_view kChannel = "<|channel|>";
constexpr std::string_view kMessage = "<|message|>";
constexpr std::string_view kEnd = "<|end|>";
constexpr std::string_view kCall = "<|call|>";
constexpr std::string_view kReturn = "<|return|>";
constexpr std::string_view kBodyEnds[] = {kEnd, kCall, kReturn, kStart, kChannel};
constexpr Marker kBodyEndMarkers[] = {{kEnd}, {kCall}, {kReturn}, {kStart}, {kChannel}};

bool fits(std::string_view template_text) {
  return template_text.find(kChannel) != std::string_view::npos &&
         template_text.find(kMessage) != std::string_view::npos;
}

struct Header {
  bool is_from_tool = false;  // of a result that the model makes up
  std::string channel;
  std::string recipient;  // empty: the user
};

std::string_view first_word(std::string_view text) { return text.substr(0, text.find_first_of(" \t\r\n<")); }

Header parse_header(std::string_view text) {
  Header header;
  header.is_from_tool = trim_json_space(text).starts_with("functions.");
  if (const size_t at = text.rfind(kChannel); at != std::string_view::npos) {
    header.channel = first_word(trim_json_space(text.substr(at + kChannel.size())));
  }
  constexpr std::string_view kTo = "to=";
  if (const size_t at = text.rfind(kTo); at != std::string_view::npos) {
    header.recipient = first_word(text.substr(at + kTo.size()));
  }
  const auto is_nobody = [&](std::string_view name) { return header.recipient == name; };
  constexpr std::string_view kNobody[] = {"assistant", "user", "all"};
  if (std::ranges::any_of(kNobody, is_nobody)) header.recipient.clear();
  return header;
}

// The text up to the body. Without one the header is the rest of the text, and nobody's.
Task<bool> read_header(TextSource& in, Header& header) {
  std::string text;
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0) co_return false;
    if (c == '<' && co_await in.at(kMessage)) break;
    if (c == '<' && co_await in.at(kStart)) {
      text.clear();
      in.advance(kStart.size());
      continue;
    }
    text += static_cast<char>(c);
    in.advance(1);
  }
  in.advance(kMessage.size());
  header = parse_header(text);
  co_return true;
}

// "functions.NAME", doubled by some models, as a tool's name.
std::string_view recipient_name(std::string_view recipient) {
  constexpr std::string_view kPrefix = "functions.";
  if (recipient.starts_with(kPrefix)) recipient.remove_prefix(kPrefix.size());
  return recipient.substr(0, recipient.find(".functions."));
}

Task<bool> is_at_body_end(TextSource& in) {
  for (const std::string_view end : kBodyEnds) {
    if (co_await in.at(end)) co_return true;
  }
  const int c = co_await in.peek();
  co_return c < 0;
}

// Arguments that are no object, up to the end of the body: the value of the only string that the tool takes, or as they
// are. False when the text was cut.
Task<bool> read_text_arguments(ParseContext& context, const Tool* tool) {
  TextSource& in = context.in;
  const std::string parameter = tool ? tool->only_string_parameter() : std::string();
  if (!parameter.empty()) context.out.arguments("{" + quote_json(parameter) + ":\"");
  while (!co_await is_at_body_end(in)) {
    const size_t n = std::max<size_t>(1, std::min(in.ahead().find('<'), in.ahead().size()));
    std::string text(in.ahead().substr(0, n));
    if (!parameter.empty()) append_escaped(text = {}, in.ahead().substr(0, n));
    context.out.arguments(text);
    in.advance(n);
  }
  if (in.was_cut()) co_return false;
  if (!parameter.empty()) context.out.arguments("\"}");
  co_return true;
}

// What stands behind the object is nobody's.
Task<bool> read_json_arguments(ParseContext& context, const Tool* tool) {
  const bool is_whole = co_await stream_object(context, context.out, tool, kBodyEnds);
  while (is_whole && !co_await is_at_body_end(context.in)) context.in.advance(1);
  co_return is_whole;
}

Task<> read_call(ParseContext& context, std::string_view recipient) {
  TextSource& in = context.in;
  const std::string_view written = recipient_name(recipient);
  const Tool* tool = context.tools.resolve(written);
  context.out.begin_call(tool ? tool->name() : written);
  bool is_whole = false;
  TextSource::Checkpoint begin(in);
  co_await in.skip_space();
  if (co_await in.at("{")) {
    is_whole = co_await read_json_arguments(context, tool);
  } else if (co_await is_at_body_end(in)) {
    is_whole = !in.was_cut();
    if (is_whole) context.out.arguments("{}");
  } else {
    begin.rewind();
    is_whole = co_await read_text_arguments(context, tool);
  }
  context.out.end_call(is_whole);
}

bool is_reasoning(const ParseContext& context, const Header& header) {
  if (!header.recipient.empty()) return true;  // a call, in a request without tools
  if (header.channel == "analysis") return true;
  const bool is_content = header.channel.empty() || header.channel == "final" || header.channel == "commentary";
  return !is_content && context.out.is_empty();
}

Task<> read_message(ParseContext& context, const Header& header) {
  if (!header.recipient.empty() && context.has_tools()) {
    co_await read_call(context, header.recipient);
  } else if (is_reasoning(context, header)) {
    co_await pass_reasoning_until(context, kBodyEndMarkers);
    context.out.end_reasoning();
  } else {
    const size_t end = co_await pass_content_until(context, kBodyEndMarkers);
    if (end != kNoMarker) context.out.end_message();
  }
}

// Behind the end of a body. <|start|> and <|channel|> are the next header's.
Task<> skip_body_end(TextSource& in) {
  for (const std::string_view end : {kEnd, kCall, kReturn}) {
    if (!co_await in.at(end)) continue;
    in.advance(end.size());
    break;
  }
}

Task<> read_answer(ParseContext& context) {
  Header header;
  while (co_await read_header(context.in, header)) {
    context.is_over = header.is_from_tool;
    if (context.is_over) co_return;
    co_await read_message(context, header);
    context.is_over = context.has_enough_calls();
    if (context.is_over) co_return;
    co_await skip_body_end(context.in);
  }
}

constexpr std::string_view kMarkers[] = {kStart, kChannel, kMessage, kEnd, "<|constrain|>"};

}  // namespace

const Dialect kHarmony = {.name = "harmony",
                          .fits = fits,
                          .markers = kMarkers,
                          .reasoning_opener = {},
                          .reasoning_open = kChannel,
                          .reasoning_close = kEnd,
                          .reasoning_cut = "<|end|><|start|>assistant<|channel|>final<|message|>",
                          .read_answer = read_answer};

}  // namespace tempo9::chat::tools
