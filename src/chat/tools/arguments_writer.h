// Passes a JSON object of arguments on while the model writes it: the model's own text, with what would not be JSON
// repaired and top-level values typed by rule J. Spec tool-calling 5.3.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tools/tool_set.h"

namespace tempo9::chat::tools {

// Repaired are raw control characters and impossible escapes in strings, and doubled opening braces. Everything else is
// passed as it is, also what is no JSON. Held back are escapes until they are whole, and values that may be retyped.
class ArgumentsWriter {
 public:
  // `tool` may be null (not declared) and outlives the writer.
  explicit ArgumentsWriter(const Tool* tool) : tool_(tool) {}

  // Takes bytes from the front of `text` and appends to `out` what is certain; gives how many it took. Stops when the
  // object closes, and before a '<' outside of strings, which no JSON has: the caller looks whether a tag ends the
  // call there, and passes it with take_byte if not. REQUIRES: not closed; the first byte ever is '{'.
  size_t take(std::string_view text, std::string& out);
  void take_byte(char c, std::string& out);

  bool is_closed() const { return is_closed_; }

 private:
  enum class Place { kKey, kColon, kValue, kAfterValue };  // of the object's own members

  bool is_top_level() const { return doubled_.size() == 1; }
  void take_in_string(char c, std::string& out);
  void take_escape(char c, std::string& out);
  void take_outside(char c, std::string& out);
  void open_string(std::string& out);
  void close_string(std::string& out);
  void open(char c, std::string& out);
  void close(char c, std::string& out);
  void begin_value();
  void end_number(std::string& out);
  std::string& target(std::string& out) { return is_held_ ? held_ : out; }

  const Tool* tool_;
  std::vector<bool> doubled_;  // of each open bracket: it was a doubled brace
  bool was_open_brace_ = false;
  bool swallows_brace_ = false;
  bool is_closed_ = false;
  Place place_ = Place::kKey;
  bool in_string_ = false;
  std::string escape_;  // the escape being read, backslash included
  std::string key_;     // of the member being read: its literal
  std::optional<AllowedTypes> allowed_;
  bool is_held_ = false;  // the value is collected in held_, to be retyped
  bool is_number_ = false;
  std::string held_;
};

}  // namespace tempo9::chat::tools
