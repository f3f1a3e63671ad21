// Gemma 4: channels, and calls as call:NAME{key:value}. Spec tool-calling 3.6.
#include <algorithm>
#include <optional>
#include <string>

#include "chat/tools/call_object.h"
#include "chat/tools/dialects.h"
#include "chat/tools/gemma_value.h"
#include "chat/tools/json_strings.h"
#include "chat/tools/typing.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kCallOpen = "<|tool_call>";
constexpr std::string_view kCallOpenBar = "<|tool_call|>";  // as some write it
constexpr std::string_view kCallClose = "<tool_call|>";
constexpr std::string_view kChannelOpen = "<|channel>";
constexpr std::string_view kChannelClose = "<channel|>";
constexpr std::string_view kToolResponse = "<|tool_response>";
constexpr std::string_view kTurnEnd = "<turn|>";
constexpr size_t kMaxName = 256;

bool fits(std::string_view template_text) { return template_text.find(kCallOpen) != std::string_view::npos; }

bool is_word_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

// The arguments of one call, from behind its opening bracket.
class ArgumentsReader {
 public:
  // `close` is ')' for a call in parentheses, whose keys may end with '='.
  ArgumentsReader(ParseContext& context, const Tool* tool, char close)
      : in_(context.in), out_(context.out), tool_(tool), close_(close) {}

  // True when the list closes.
  Task<bool> read() {
    for (;;) {
      co_await in_.skip_space();
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      if (c == close_) break;
      if (c == ',') {
        in_.advance(1);
        continue;
      }
      if (co_await in_.at(kCallClose)) co_return false;
      const auto key = co_await read_key();
      if (!key) co_return false;
      co_await in_.skip_space();
      key_ = (is_first_ ? "{" : ",") + quote_json(*key) + ":";
      allowed_ = find_parameter(tool_, *key);
      if (!co_await read_value()) co_return false;
      is_first_ = false;
    }
    in_.advance(1);
    out_.arguments(is_first_ ? "{}" : "}");
    co_return true;
  }

 private:
  const AllowedTypes* allowed() const { return allowed_ ? &*allowed_ : nullptr; }

  // The key, the cursor behind its colon.
  Task<std::optional<std::string>> read_key() {
    std::string key;
    if (co_await in_.at(kGemmaQuote)) {
      in_.advance(kGemmaQuote.size());
      TextSource::Checkpoint begin(in_);
      while (!co_await in_.at(kGemmaQuote)) {
        if (!co_await in_.need(1)) co_return std::nullopt;
        in_.advance(1);
      }
      key = begin.text();
      in_.advance(kGemmaQuote.size());
    } else if (co_await in_.at("\"")) {
      TextSource::Checkpoint begin(in_);
      if (!co_await skip_json_string(in_)) co_return std::nullopt;
      key = decode_json_string(begin.text()).value_or("");
    } else {
      TextSource::Checkpoint begin(in_);
      for (int c = co_await in_.peek(); c != ':' && !(c == '=' && close_ == ')'); c = co_await in_.peek()) {
        if (c < 0 || c == '}' || c == ')') co_return std::nullopt;
        in_.advance(1);
      }
      key = trim_json_space(begin.text());
    }
    co_await in_.skip_space();
    const int c = co_await in_.peek();
    if (c != ':' && !(c == '=' && close_ == ')')) co_return std::nullopt;
    in_.advance(1);
    co_return key;
  }

  Task<bool> read_value() {
    const int c = co_await in_.peek();
    if (c < 0) co_return false;
    if (c == '{' || c == '[') co_return co_await read_nested();
    if (c == '"') co_return co_await read_json_string();
    if (c == '\'') co_return co_await read_single_quoted();
    if (co_await in_.at(kGemmaQuote)) co_return co_await read_native_string();
    co_return co_await read_bare();
  }

  void write(std::string_view json) { out_.arguments(key_ + type_json_value(json, allowed())); }

  // A string streams unless rule J wants all of it.
  Task<bool> read_native_string() {
    in_.advance(kGemmaQuote.size());
    const bool is_stream = !retypes_strings(allowed());
    std::string json = "\"";
    if (is_stream) out_.arguments(key_ + json);
    for (;;) {
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      in_.take_end_mattered();
      if (c == '<' && co_await skip_closing_quote()) break;
      if (c == '}' && co_await is_call_end()) break;
      if (in_.take_end_mattered()) {  // it may have become the string's end
        in_.advance(in_.ahead().size());
        co_return false;
      }
      const size_t n = std::max<size_t>(1, std::min(in_.ahead().find_first_of("<}"), in_.ahead().size()));
      std::string text;
      append_escaped(text, in_.ahead().substr(0, n));
      in_.advance(n);
      if (is_stream) {
        out_.arguments(text);
      } else {
        json += text;
      }
    }
    if (in_.was_cut() && in_.ahead().empty()) co_return false;
    if (is_stream) {
      out_.arguments("\"");
    } else {
      write(json + "\"");
    }
    co_return true;
  }

  // Whether the quote at the cursor closes a string; if so the cursor is then behind it. It does where a value may end.
  Task<bool> skip_closing_quote() {
    if (!co_await in_.at(kGemmaQuote)) co_return false;
    TextSource::Checkpoint quote(in_);
    in_.advance(kGemmaQuote.size());
    const size_t behind = in_.position();
    co_await in_.skip_space();
    const int c = co_await in_.peek();
    const bool is_end = c < 0 || c == ',' || c == '}' || c == ']' || c == ':' || c == close_;
    const bool is_close = is_end || co_await is_at_declared_key();
    in_.rewind(is_close ? behind : quote.position());
    co_return is_close;
  }

  // The comma before it is missing, then.
  Task<bool> is_at_declared_key() {
    TextSource::Checkpoint begin(in_);
    co_await skip_word();
    const std::string word(begin.text());
    co_await in_.skip_space();
    const bool is_key = co_await in_.at(":") && find_parameter(tool_, word);
    begin.rewind();
    co_return is_key;
  }

  Task<> skip_word() {
    for (int c = co_await in_.peek(); c >= 0 && is_word_part(static_cast<char>(c)); c = co_await in_.peek()) {
      in_.advance(1);
    }
  }

  // Whether the bracket at the cursor is the last of the call, although a string is open.
  Task<bool> is_call_end() {
    TextSource::Checkpoint begin(in_);
    in_.advance(1);
    co_await in_.skip_space();
    bool is_end = false;
    if (co_await in_.at(kCallClose)) {
      in_.advance(kCallClose.size());
      co_await in_.skip_space();
      const int c = co_await in_.peek();
      is_end = c < 0 ? !in_.was_cut() : false;
      for (const std::string_view next : {kCallOpen, kToolResponse, kTurnEnd}) is_end = is_end || co_await in_.at(next);
    }
    begin.rewind();
    co_return is_end;
  }

  Task<bool> read_json_string() {
    TextSource::Checkpoint begin(in_);
    if (!co_await skip_json_string(in_)) co_return false;
    const auto text = decode_json_string(begin.text());
    write(quote_json(text ? *text : std::string(begin.text())));
    co_return true;
  }

  Task<bool> read_single_quoted() {
    in_.advance(1);
    TextSource::Checkpoint begin(in_);
    for (;;) {
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      if (c == '\'' && co_await is_single_quote_end()) break;
      in_.advance(1);
    }
    const std::string text(begin.text());
    in_.advance(1);
    write(quote_json(text));
    co_return true;
  }

  Task<bool> is_single_quote_end() {
    TextSource::Checkpoint begin(in_);
    in_.advance(1);
    co_await in_.skip_space();
    const int c = co_await in_.peek();
    const bool is_end = c < 0 || c == ',' || c == '}' || c == close_ || co_await is_at_declared_key();
    begin.rewind();
    co_return is_end;
  }

  Task<bool> read_nested() {
    TextSource::Checkpoint begin(in_);
    int depth = 0;
    do {
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      if (c == '"') {
        if (!co_await skip_json_string(in_)) co_return false;
        continue;
      }
      if (c == '<' && co_await in_.at(kGemmaQuote)) {
        if (!co_await skip_native_string()) co_return false;
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      in_.advance(1);
    } while (depth > 0);
    const auto json = gemma_value_to_json(begin.text());
    write(json ? *json : quote_json(begin.text()));
    co_return true;
  }

  Task<bool> skip_native_string() {
    in_.advance(kGemmaQuote.size());
    for (;;) {
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      if (c == '<' && co_await skip_closing_quote()) co_return true;
      in_.advance(1);
    }
  }

  // A word or words up to what ends a value. Text for a string may hold commas: there a key must follow.
  Task<bool> read_bare() {
    const bool is_text = allowed_ && allowed_->is_string_only();
    TextSource::Checkpoint begin(in_);
    for (;;) {
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      if (c == '<' && co_await in_.at(kGemmaQuote)) {
        const std::string text(begin.text());
        in_.advance(kGemmaQuote.size());
        write(quote_json(text));
        co_return true;
      }
      if (c == ',' && (!is_text || co_await is_at_next_key())) break;
      if (c == close_ || c == '}' || (c == ']' && !is_text)) break;
      in_.advance(1);
    }
    write(gemma_bare_to_json(begin.text()));
    co_return true;
  }

  Task<bool> is_at_next_key() {
    TextSource::Checkpoint begin(in_);
    in_.advance(1);
    co_await in_.skip_space();
    TextSource::Checkpoint word(in_);
    co_await skip_word();
    const bool has_word = !word.text().empty();
    const bool is_quoted = !has_word && co_await in_.at(kGemmaQuote);
    co_await in_.skip_space();
    const int c = co_await in_.peek();
    const bool is_key = is_quoted || (has_word && (c == ':' || (c == '=' && close_ == ')')));
    begin.rewind();
    co_return is_key;
  }

  TextSource& in_;
  AnswerSink& out_;
  const Tool* tool_;
  const char close_;
  bool is_first_ = true;
  std::string key_;  // of the value being read, with what stands before it and the colon
  std::optional<AllowedTypes> allowed_;
};

// "call:NAME", the cursor behind it. Empty when that is not what stands here.
Task<std::string> read_name(TextSource& in) {
  constexpr std::string_view kCall = "call:";
  co_await in.skip_space();
  if (!co_await in.at(kCall)) co_return std::string();
  in.advance(kCall.size());
  TextSource::Checkpoint begin(in);
  for (int c = co_await in.peek(); c != '{' && c != '('; c = co_await in.peek()) {
    const bool is_too_long = in.position() - begin.position() > kMaxName;
    if (c < 0 || c == '\n' || c == '<' || is_too_long) co_return std::string();
    in.advance(1);
  }
  co_return std::string(trim_json_space(begin.text()));
}

// From the bracket on.
Task<bool> read_arguments_list(ParseContext& context, const Tool* tool) {
  TextSource& in = context.in;
  const bool is_parenthesised = co_await in.at("(");
  in.advance(1);
  bool is_object = !is_parenthesised;
  if (is_parenthesised) {
    co_await in.skip_space();
    is_object = co_await in.at("{");
    if (is_object) in.advance(1);
  }
  ArgumentsReader reader(context, tool, is_object ? '}' : ')');
  const bool is_whole = co_await reader.read();
  if (is_parenthesised && is_object) {
    co_await in.skip_space();
    if (co_await in.at(")")) in.advance(1);
  }
  co_return is_whole;
}

// At the opening marker. What is no call is content, with the marker.
Task<> read_call(ParseContext& context, std::string_view marker) {
  TextSource& in = context.in;
  TextSource::Checkpoint begin(in);
  in.advance(marker.size());
  const std::string written = co_await read_name(in);
  if (written.empty()) {
    begin.rewind();
    context.pass_content(marker.size());
    co_return;
  }
  const Tool* tool = context.tools.resolve(written);
  if (!tool) tool = context.tools.resolve(std::string_view(written).substr(written.rfind(':') + 1));
  context.out.begin_call(tool ? tool->name() : written);
  const bool is_whole = co_await read_arguments_list(context, tool);
  context.out.end_call(is_whole);
}

// Behind a call: its closing marker, which some write twice.
Task<> skip_call_close(TextSource& in) {
  co_await skip_tag(in, kCallClose);
  for (bool is_another = true; is_another;) {
    TextSource::Checkpoint begin(in);
    co_await in.skip_space();
    is_another = co_await in.at(kCallClose);
    if (is_another) {
      in.advance(kCallClose.size());
    } else {
      begin.rewind();
    }
  }
}

Task<> read_channel(ParseContext& context) {
  TextSource& in = context.in;
  context.in_reasoning = true;
  constexpr std::string_view kThought = "thought";
  if (co_await in.at(kThought)) {
    in.advance(kThought.size());
    if (co_await in.at("\n")) in.advance(1);
  }
  const Marker markers[] = {{kChannelClose}, {kTurnEnd}, {kCallOpen}};
  co_await pass_reasoning_until(context, {markers, context.has_tools() ? 3u : 2u});
  context.out.end_reasoning();
}

Task<> read_answer(ParseContext& context) {
  TextSource& in = context.in;
  if (context.options.start == Start::kInReasoning) co_await read_channel(context);
  constexpr Marker kStructure[] = {{kChannelOpen}, {kChannelClose}, {kToolResponse},
                                   {kTurnEnd},     {kCallOpen},     {kCallOpenBar}};
  const std::span<const Marker> markers(kStructure, context.has_tools() ? 6 : 4);
  for (;;) {
    const size_t found = co_await pass_content_until(context, markers);
    if (found == kNoMarker) co_return;
    const std::string_view marker = markers[found].text;
    context.is_over = marker == kToolResponse || marker == kTurnEnd;
    if (context.is_over) co_return;
    if (marker == kCallOpen || marker == kCallOpenBar) {
      co_await read_call(context, marker);
      if (context.out.n_calls() > 0) co_await skip_call_close(in);
      context.is_over = context.has_enough_calls();
      if (context.is_over) co_return;
    } else {
      in.advance(marker.size());
      if (marker == kChannelOpen) co_await read_channel(context);
    }
  }
}

constexpr std::string_view kMarkers[] = {kCallOpen,     kCallClose,         kChannelOpen, kChannelClose,
                                         kToolResponse, "<tool_response|>", kGemmaQuote};

}  // namespace

const Dialect kGemma4 = {.name = "gemma4",
                         .fits = fits,
                         .markers = kMarkers,
                         .reasoning_opener = "<|channel>thought",
                         .reasoning_open = kChannelOpen,
                         .reasoning_close = kChannelClose,
                         .reasoning_cut = kChannelClose,
                         .read_answer = read_answer};

}  // namespace tempo9::chat::tools
