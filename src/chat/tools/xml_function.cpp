#include "chat/tools/xml_function.h"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "chat/tools/json_strings.h"
#include "chat/tools/typing.h"

namespace tempo9::chat::tools {
namespace {

constexpr std::string_view kFunction = "<function";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameter = "<parameter";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kToolCall = "<tool_call>";
constexpr std::string_view kToolCallEnd = "</tool_call>";
constexpr size_t kMaxFunctionName = 256;

// What may follow a value's end tag, and a function's.
constexpr std::string_view kBehindParameter[] = {kParameter, kFunctionEnd, kToolCallEnd, kToolCall};
constexpr std::string_view kBehindFunction[] = {kToolCallEnd, kToolCall, kFunction};

// Whether one of `texts` comes next; with `at_end` the end of the text counts as one of them.
Task<bool> is_at_any(TextSource& in, std::span<const std::string_view> texts, bool at_end) {
  for (const std::string_view text : texts) {
    if (co_await in.at(text)) co_return true;
  }
  if (!at_end) co_return false;
  const int c = co_await in.peek();
  co_return c < 0;
}

// The name in "<tag=NAME>" or "<tag name="NAME">", the cursor then behind it. Nothing when no such tag stands here.
Task<std::optional<std::string>> read_tag_name(TextSource& in, std::string_view tag) {
  in.advance(tag.size());
  std::string written;
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0 || c == '\n' || c == '<' || written.size() > kMaxFunctionName) co_return std::nullopt;
    in.advance(1);
    if (c == '>') break;
    written += static_cast<char>(c);
  }
  std::string_view name = trim_json_space(written);
  if (name.starts_with("name")) name = trim_json_space(name.substr(4));
  if (!name.starts_with('=')) co_return std::nullopt;
  name = trim_json_space(name.substr(1));
  const bool is_quoted = name.size() >= 2 && name.front() == name.back() && (name[0] == '"' || name[0] == '\'');
  if (is_quoted) name = trim_json_space(name.substr(1, name.size() - 2));
  if (name.empty()) co_return std::nullopt;
  co_return std::string(name);
}

// Where the text of a value goes: a string streams, anything else is typed when it is whole.
class ValueWriter {
 public:
  // `out` null: the value is dropped.
  ValueWriter(AnswerSink* out, std::string key, std::optional<AllowedTypes> allowed)
      : out_(out), key_(std::move(key)), allowed_(std::move(allowed)) {
    is_stream_ = !allowed_ || (allowed_->is_string_only() && allowed_->members.empty());
    if (is_stream_) pass(key_ + "\"");
  }

  void add(std::string_view text) {
    if (!is_stream_) {
      held_ += text;
      return;
    }
    std::string json;
    append_escaped(json, text);
    pass(json);
  }
  void finish() { pass(is_stream_ ? std::string("\"") : key_ + type_raw_text(held_, &*allowed_)); }

 private:
  void pass(std::string_view json) {
    if (out_) out_->arguments(json);
  }

  AnswerSink* out_;
  std::string key_;  // with what stands before it and the colon
  std::optional<AllowedTypes> allowed_;
  bool is_stream_;
  std::string held_;
};

class XmlFunctionReader {
 public:
  XmlFunctionReader(ParseContext& context, AnswerSink& out) : context_(context), in_(context.in), out_(out) {}

  Task<CallResult> read() {
    const auto written = co_await read_tag_name(in_, kFunction);
    if (!written) co_return CallResult::kNoCall;
    const int c = co_await in_.peek();
    if (c != '\n' && c != '\r' && c != '<' && c != '{') co_return CallResult::kNoCall;
    tool_ = context_.tools.resolve(*written);
    out_.begin_call(tool_ ? tool_->name() : *written);
    co_await in_.skip_space();
    const bool is_json = co_await in_.at("{");
    const bool is_complete = is_json ? co_await read_json_body() : co_await read_parameters();
    out_.end_call(is_complete);
    co_return is_complete ? CallResult::kComplete : CallResult::kBroken;
  }

 private:
  Task<bool> read_json_body() {
    const bool is_whole = co_await read_arguments(context_, out_, tool_, kFunctionEnd);
    co_await skip_function_end();
    co_return is_whole;
  }

  Task<> skip_function_end() {
    TextSource::Checkpoint begin(in_);
    co_await in_.skip_space();
    if (co_await in_.at(kFunctionEnd)) {
      in_.advance(kFunctionEnd.size());
    } else {
      begin.rewind();
    }
  }

  // What stands between the tags is nobody's, and skipped.
  Task<bool> read_parameters() {
    for (;;) {
      co_await in_.skip_space();
      const int c = co_await in_.peek();
      if (c < 0) break;
      if (co_await in_.at(kParameter)) {
        if (!co_await read_parameter()) co_return false;
      } else if (co_await in_.at(kFunctionEnd)) {
        in_.advance(kFunctionEnd.size());
        co_return finish();
      } else if (co_await is_at_any(in_, kBehindFunction, false)) {
        co_return finish();
      } else {
        in_.advance(1);
      }
    }
    if (in_.was_cut()) co_return false;
    co_return finish();
  }

  bool finish() {
    out_.arguments(keys_.empty() ? "{}" : "}");
    return true;
  }

  // False when the text ends inside.
  Task<bool> read_parameter() {
    const auto key = co_await read_tag_name(in_, kParameter);
    if (!key) {
      const int c = co_await in_.peek();
      co_return c >= 0;
    }
    const bool is_first = keys_.empty();
    const bool is_new = keys_.insert(*key).second;
    ValueWriter value(is_new ? &out_ : nullptr, (is_first ? "{" : ",") + quote_json(*key) + ":",
                      find_parameter(tool_, *key));
    co_return co_await read_value(value);
  }

  Task<bool> read_value(ValueWriter& value) {
    co_await skip_newline();
    bool is_line_start = true;
    std::string held_newline;
    for (;;) {
      const int c = co_await in_.peek();
      if (c < 0) co_return false;
      in_.take_end_mattered();
      if (c == '<' && co_await skip_value_end(is_line_start)) break;
      if (in_.take_end_mattered()) {  // it may have become an end tag
        in_.advance(in_.ahead().size());
        co_return false;
      }
      if (c == '\n' || c == '\r') {
        value.add(held_newline);
        held_newline = co_await take_newline();
        is_line_start = held_newline.ends_with('\n');
        continue;
      }
      value.add(held_newline);
      held_newline.clear();
      const size_t n = std::max<size_t>(1, std::min(in_.ahead().find_first_of("<\r\n"), in_.ahead().size()));
      value.add(in_.ahead().substr(0, n));
      in_.advance(n);
      is_line_start = false;
    }
    if (in_.was_cut()) co_return false;
    value.finish();
    co_return true;
  }

  Task<> skip_newline() {
    const int c = co_await in_.peek();
    if (c == '\n' || (c == '\r' && co_await in_.at("\r\n"))) co_await take_newline();
  }

  // "\n", "\r\n", or a '\r' that stands alone.
  Task<std::string> take_newline() {
    const size_t n = co_await in_.at("\r\n") ? 2 : 1;
    std::string newline(in_.ahead().substr(0, n));
    in_.advance(n);
    co_return newline;
  }

  // Whether the value ends at the '<' that comes next. If so the cursor is then behind </parameter>, or before the tag
  // that ends a value without it.
  Task<bool> skip_value_end(bool is_line_start) {
    TextSource::Checkpoint begin(in_);
    bool is_end = false;
    if (co_await in_.at(kParameterEnd)) {
      in_.advance(kParameterEnd.size());
      const size_t behind = in_.position();
      co_await in_.skip_space();
      is_end = co_await is_at_any(in_, kBehindParameter, true);
      in_.rewind(is_end ? behind : begin.position());
      co_return is_end;
    }
    if (co_await in_.at(kFunctionEnd)) {
      in_.advance(kFunctionEnd.size());
      co_await in_.skip_space();
      is_end = co_await is_at_any(in_, kBehindFunction, true);
    } else if (is_line_start && co_await in_.at(kParameter)) {
      const auto key = co_await read_tag_name(in_, kParameter);
      is_end = key && find_parameter(tool_, *key);
    }
    begin.rewind();
    co_return is_end;
  }

  ParseContext& context_;
  TextSource& in_;
  AnswerSink& out_;
  const Tool* tool_ = nullptr;
  std::set<std::string> keys_;
};

}  // namespace

Task<CallResult> read_xml_function(ParseContext& context, AnswerSink& out) {
  XmlFunctionReader reader(context, out);
  co_return co_await reader.read();
}

Task<bool> is_whole_xml_function(ParseContext& context) {
  TextSource& in = context.in;
  {
    TextSource::Checkpoint begin(in);
    const auto name = co_await read_tag_name(in, kFunction);
    if (!name || !context.tools.find(*name)) co_return false;
    begin.rewind();
  }
  AnswerSink nowhere;
  TextSource::Checkpoint begin(in);
  const CallResult result = co_await read_xml_function(context, nowhere);
  co_return result == CallResult::kComplete&& begin.text().ends_with(kFunctionEnd);
}

}  // namespace tempo9::chat::tools
