// Python literals and calls, as models write them, read as JSON (spec tool-calling 3.3, 4.3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tempo9::chat::tools {

// Lists, tuples, dicts with string keys, strings in either quote, JSON numbers, True/False/None and true/false/null,
// trailing commas; nested at most this deep.
inline constexpr int kMaxPythonNesting = 100;

// The literal as compact JSON; numbers keep their digits. Nothing when `text` holds anything else.
std::optional<std::string> python_literal_to_json(std::string_view text);

struct PythonCall {
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments;  // name, compact JSON
};

// One call with keyword arguments at the beginning of `text`, which is moved behind it. Dotted names are one name.
// Nothing, and `text` as it was, when there is none.
std::optional<PythonCall> take_python_call(std::string_view& text);

// "[f(x=1), g()]" or the same without the brackets on lines of its own: all calls. Nothing unless that is all there is.
std::optional<std::vector<PythonCall>> parse_python_call_list(std::string_view text);
std::optional<std::vector<PythonCall>> parse_python_call_lines(std::string_view text);

}  // namespace tempo9::chat::tools
