#include "chat/tools/arguments_writer.h"

#include <utility>

#include "chat/tools/json_strings.h"
#include "chat/tools/typing.h"

namespace tempo9::chat::tools {
namespace {

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_number_part(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

}  // namespace

size_t ArgumentsWriter::take(std::string_view text, std::string& out) {
  size_t n = 0;
  while (n < text.size() && !is_closed_ && (in_string_ || text[n] != '<')) take_byte(text[n++], out);
  return n;
}

void ArgumentsWriter::take_byte(char c, std::string& out) {
  if (in_string_) {
    take_in_string(c, out);
  } else {
    take_outside(c, out);
  }
}

void ArgumentsWriter::take_in_string(char c, std::string& out) {
  if (!escape_.empty()) return take_escape(c, out);
  if (c == '\\') {
    escape_ = c;
  } else if (c == '"') {
    close_string(out);
  } else {
    if (place_ == Place::kKey && is_top_level()) append_escaped(key_, {&c, 1});
    append_escaped(target(out), {&c, 1});
  }
}

void ArgumentsWriter::take_escape(char c, std::string& out) {
  const auto pass = [&](std::string_view text) {
    if (place_ == Place::kKey && is_top_level()) key_ += text;
    target(out) += text;
  };
  constexpr std::string_view kShort = "\"\\/bfnrt";
  const bool is_unicode = escape_.size() > 1;
  if (!is_unicode && kShort.find(c) != std::string_view::npos) {
    escape_ += c;
    pass(std::exchange(escape_, {}));
  } else if (is_unicode ? is_hex(c) : c == 'u') {
    escape_ += c;
    if (escape_.size() == 6) pass(std::exchange(escape_, {}));
  } else {
    pass("\\" + std::exchange(escape_, {}));
    take_in_string(c, out);
  }
}

void ArgumentsWriter::take_outside(char c, std::string& out) {
  if (is_number_ && !is_number_part(c)) end_number(out);
  const bool is_doubled = was_open_brace_ && c == '{';
  const bool is_swallowed = swallows_brace_ && c == '}';
  was_open_brace_ = false;
  swallows_brace_ = false;
  if (is_doubled) {
    doubled_.back() = true;
    return;
  }
  if (is_swallowed) return;
  if (is_top_level() && place_ == Place::kValue && !is_json_space(c)) begin_value();
  if (c == '"') return open_string(out);
  if (c == '{' || c == '[') return open(c, out);
  if (c == '}' || c == ']') return close(c, out);
  if (is_top_level()) {
    if (c == ':' && place_ == Place::kColon) place_ = Place::kValue;
    if (c == ',') {
      place_ = Place::kKey;
      key_.clear();
    }
    if (place_ == Place::kAfterValue && is_number_part(c) && retypes_numbers(allowed_ ? &*allowed_ : nullptr)) {
      is_held_ = is_number_ = true;
    }
  }
  target(out) += c;
}

// The first byte of a top-level value comes next.
void ArgumentsWriter::begin_value() {
  place_ = Place::kAfterValue;
  const auto name = decode_json_string(key_);
  allowed_ = name ? find_parameter(tool_, *name) : std::nullopt;
}

void ArgumentsWriter::open_string(std::string& out) {
  in_string_ = true;
  if (is_top_level() && place_ == Place::kKey) key_ = '"';
  if (is_top_level() && place_ == Place::kAfterValue) is_held_ = retypes_strings(allowed_ ? &*allowed_ : nullptr);
  target(out) += '"';
}

void ArgumentsWriter::close_string(std::string& out) {
  in_string_ = false;
  target(out) += '"';
  if (!is_top_level()) return;
  if (place_ == Place::kKey) {
    key_ += '"';
    place_ = Place::kColon;
  }
  if (std::exchange(is_held_, false)) out += type_json_value(std::exchange(held_, {}), allowed_ ? &*allowed_ : nullptr);
}

void ArgumentsWriter::end_number(std::string& out) {
  is_held_ = is_number_ = false;
  out += type_json_value(std::exchange(held_, {}), &*allowed_);
}

void ArgumentsWriter::open(char c, std::string& out) {
  doubled_.push_back(false);
  was_open_brace_ = c == '{';
  out += c;
}

void ArgumentsWriter::close(char c, std::string& out) {
  out += c;
  swallows_brace_ = doubled_.back();
  doubled_.pop_back();
  is_closed_ = doubled_.empty();
}

}  // namespace tempo9::chat::tools
