#include "chat/tools/call_object.h"

#include <algorithm>
#include <optional>
#include <string>

#include "chat/json_text.h"
#include "chat/tools/arguments_writer.h"
#include "chat/tools/json_strings.h"

namespace tempo9::chat::tools {
namespace {

// How long a guess may hold text back before it is a call.
constexpr size_t kMaxGuess = 4096;

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, key) != names.end();
}
bool is_arguments_key(std::string_view key) { return is_one_of(key, {"arguments", "parameters", "args", "input"}); }

// Behind any JSON value, or what stands in its place. False when the text ends inside.
Task<bool> skip_json_value(TextSource& in) {
  size_t depth = 0;
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0) co_return false;
    const bool is_delimiter = c == ',' || c == '}' || c == ']' || c == ':' || is_json_space(static_cast<char>(c));
    if (depth == 0 && is_delimiter) co_return true;
    if (c == '"') {
      if (!co_await skip_json_string(in)) co_return false;
    } else {
      in.advance(1);
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
    }
    if (depth == 0 && (c == '"' || c == '}' || c == ']')) co_return true;
  }
}

bool is_json_object(std::string_view text) {
  text = trim_json_space(text);
  return text.starts_with('{') && Json::accept(escape_controls_in_strings(text));
}

// Arguments that the model wrote as the JSON string `literal`.
void write_quoted_arguments(AnswerSink& out, const Tool* tool, std::string_view literal) {
  const auto text = decode_json_string(literal);
  if (text && trim_json_space(*text).empty()) {
    out.arguments("{}");
  } else if (text && is_json_object(*text)) {
    std::string json;
    ArgumentsWriter(tool).take(trim_json_space(*text), json);
    out.arguments(json);
  } else {
    out.arguments(escape_controls_in_strings(literal));
  }
}

class CallObjectReader {
 public:
  CallObjectReader(ParseContext& context, AnswerSink& out, CallForm form, std::string_view end_tag)
      : context_(context), in_(context.in), out_(out), form_(form), end_tag_(end_tag) {
    start_.emplace(in_);
  }

  Task<CallResult> read() {
    const Members end = co_await read_members();
    if (end != Members::kClosed && has_begun_ && !has_arguments_) {
      if (end == Members::kMalformed) co_await pass_rest();
      out_.end_call(false);
      co_return CallResult::kBroken;
    }
    if (!has_begun_) co_return CallResult::kNoCall;
    if (!has_arguments_) out_.arguments("{}");
    out_.end_call(true);
    co_return CallResult::kComplete;
  }

 private:
  enum class Members {
    kClosed,     // by its brace, or by what can only stand behind it
    kEnded,      // the text ended, or the call inside its arguments
    kMalformed,  // this is no JSON object
    kNoCall,     // it may be JSON, and is no call
  };

  bool is_guess_too_long() const {
    return form_ == CallForm::kGuessed && !has_begun_ && in_.position() - start_->position() > kMaxGuess;
  }

  Task<Members> read_members() {
    in_.advance(1);
    if (co_await in_.at("{")) in_.advance(1);
    for (;;) {
      co_await in_.skip_space();
      const int c = co_await in_.peek();
      if (is_guess_too_long()) co_return Members::kNoCall;
      if (c == '}') {
        in_.advance(1);
        co_return Members::kClosed;
      }
      if (c == ',') {
        in_.advance(1);
      } else if (c == '"') {
        const Members end = co_await read_member();
        if (end != Members::kClosed) co_return end;
      } else if (c < 0) {
        co_return Members::kEnded;
      } else {
        const bool is_behind = c == ']' || (!end_tag_.empty() && co_await in_.at(end_tag_));
        co_return is_behind ? Members::kClosed : Members::kMalformed;
      }
    }
  }

  // kClosed: the member was read, and there may be more.
  Task<Members> read_member() {
    TextSource::Checkpoint key_begin(in_);
    if (!co_await skip_json_string(in_)) co_return Members::kEnded;
    const std::string key = decode_json_string(key_begin.text()).value_or("");
    co_await in_.skip_space();
    const int colon = co_await in_.peek();
    if (colon != ':') co_return colon < 0 ? Members::kEnded : Members::kMalformed;
    in_.advance(1);
    co_await in_.skip_space();
    const int c = co_await in_.peek();
    if (c < 0) co_return Members::kEnded;
    if (key == "function" && c == '{') co_return co_await read_members();
    if (is_one_of(key, {"name", "function"}) && !has_name_) co_return co_await read_name();
    if (is_arguments_key(key) && !has_arguments_ && !arguments_begin_) co_return co_await read_arguments_member();
    co_return co_await skip_json_value(in_) ? Members::kClosed : Members::kEnded;
  }

  Task<Members> read_name() {
    TextSource::Checkpoint begin(in_);
    if (!co_await in_.at("\"")) co_return Members::kNoCall;
    if (!co_await skip_json_string(in_)) co_return Members::kEnded;
    const std::string written = decode_json_string(begin.text()).value_or("");
    if (written.empty()) co_return Members::kNoCall;
    const bool is_guess = form_ == CallForm::kGuessed;
    tool_ = is_guess ? context_.tools.find(written) : context_.tools.resolve(written);
    if (is_guess && !tool_) co_return Members::kNoCall;
    name_ = tool_ ? tool_->name() : written;
    has_name_ = true;
    if (arguments_begin_) co_return co_await read_earlier_arguments();
    if (!is_guess) begin_call();
    co_return Members::kClosed;
  }

  Task<Members> read_arguments_member() {
    if (!has_name_) {
      arguments_begin_ = in_.position();
      co_return co_await skip_json_value(in_) ? Members::kClosed : Members::kEnded;
    }
    begin_call();
    has_arguments_ = co_await read_arguments(context_, out_, tool_, end_tag_);
    co_return has_arguments_ ? Members::kClosed : Members::kEnded;
  }

  // The arguments stood before the name.
  Task<Members> read_earlier_arguments() {
    const size_t here = in_.position();
    TextSource::Checkpoint keep(in_);
    in_.rewind(*arguments_begin_);
    has_arguments_ = true;
    out_.begin_call(name_);
    has_begun_ = true;
    co_await read_arguments(context_, out_, tool_, end_tag_);
    in_.rewind(here);
    start_.reset();
    co_return Members::kClosed;
  }

  void begin_call() {
    if (has_begun_) return;
    has_begun_ = true;
    out_.begin_call(name_);
    start_.reset();
  }

  // The client is to see what went wrong: as arguments, since the call has begun.
  Task<> pass_rest() {
    while (co_await in_.need(1)) {
      if (!end_tag_.empty() && co_await in_.at(end_tag_)) break;
      const size_t n =
          std::max<size_t>(std::min(in_.ahead().find(end_tag_.empty() ? '\0' : end_tag_[0]), in_.ahead().size()), 1);
      out_.arguments(in_.ahead().substr(0, n));
      in_.advance(n);
    }
  }

  ParseContext& context_;
  TextSource& in_;
  AnswerSink& out_;
  const CallForm form_;
  const std::string_view end_tag_;
  std::optional<TextSource::Checkpoint> start_;  // until the call has begun
  bool has_name_ = false;
  std::string name_;
  const Tool* tool_ = nullptr;
  bool has_begun_ = false;
  bool has_arguments_ = false;
  std::optional<size_t> arguments_begin_;  // when they stand before the name
};

// Behind what separates the elements of an array. False when no object comes next.
Task<bool> find_next_object(TextSource& in) {
  for (;;) {
    co_await in.skip_space();
    const int c = co_await in.peek();
    if (c != ',') co_return c == '{';
    in.advance(1);
  }
}

}  // namespace

Task<bool> skip_json_string(TextSource& in) {
  in.advance(1);
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0) co_return false;
    in.advance(1);
    if (c == '"') co_return true;
    if (c != '\\') continue;
    if (!co_await in.need(1)) co_return false;
    in.advance(1);
  }
}

Task<bool> stream_object(ParseContext& context, AnswerSink& out, const Tool* tool,
                         std::span<const std::string_view> end_tags) {
  TextSource& in = context.in;
  ArgumentsWriter writer(tool);
  while (!writer.is_closed()) {
    if (!co_await in.need(1)) co_return false;
    std::string json;
    in.advance(writer.take(in.ahead(), json));
    if (!writer.is_closed() && in.ahead().starts_with('<')) {
      out.arguments(json);
      json.clear();
      for (const std::string_view tag : end_tags) {
        if (co_await in.at(tag)) co_return false;
      }
      writer.take_byte('<', json);
      in.advance(1);
    }
    out.arguments(json);
  }
  co_return true;
}

Task<bool> read_arguments(ParseContext& context, AnswerSink& out, const Tool* tool, std::string_view end_tag) {
  TextSource& in = context.in;
  const int c = co_await in.peek();
  if (c < 0) co_return false;
  if (c == '{') co_return co_await stream_object(context, out, tool, {&end_tag, end_tag.empty() ? 0u : 1u});
  TextSource::Checkpoint begin(in);
  if (!co_await skip_json_value(in)) co_return false;
  if (c == '"') {
    write_quoted_arguments(out, tool, begin.text());
  } else if (begin.text().empty() || begin.text() == "null") {
    out.arguments("{}");
  } else {
    out.arguments(escape_controls_in_strings(begin.text()));
  }
  co_return true;
}

Task<CallResult> read_call_object(ParseContext& context, AnswerSink& out, CallForm form, std::string_view end_tag) {
  CallObjectReader reader(context, out, form, end_tag);
  co_return co_await reader.read();
}

Task<bool> is_call_array(ParseContext& context) {
  AnswerSink nowhere;
  context.in.advance(1);
  while (co_await find_next_object(context.in)) {
    const CallResult result = co_await read_call_object(context, nowhere, CallForm::kGuessed, {});
    if (result != CallResult::kComplete) co_return false;
  }
  const bool is_closed = co_await context.in.at("]");
  if (is_closed) context.in.advance(1);
  co_return is_closed&& nowhere.n_calls() > 0;
}

Task<CallResult> read_call_array(ParseContext& context, AnswerSink& out, std::string_view end_tag) {
  TextSource& in = context.in;
  in.advance(1);
  bool has_call = false;
  while (co_await find_next_object(in)) {
    TextSource::Checkpoint begin(in);
    const CallResult result = co_await read_call_object(context, out, CallForm::kMarked, end_tag);
    if (result == CallResult::kBroken) co_return result;
    if (result == CallResult::kNoCall) {
      if (!has_call) co_return result;
      begin.rewind();
      co_return CallResult::kComplete;
    }
    has_call = true;
    if (context.has_enough_calls()) co_return result;
  }
  const bool is_closed = co_await in.at("]");
  if (is_closed) in.advance(1);
  co_return has_call || is_closed ? CallResult::kComplete : CallResult::kNoCall;
}

}  // namespace tempo9::chat::tools
