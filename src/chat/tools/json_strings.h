// JSON string literals: writing, reading, and repairing what models get wrong in them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tempo9::chat::tools {

inline bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
std::string_view trim_json_space(std::string_view text);

// Appends `text` escaped as it stands inside a JSON string: quote, backslash and control characters, nothing else.
// Works on any cut of a text.
void append_escaped(std::string& out, std::string_view text);
// With the quotes around it.
std::string quote_json(std::string_view text);

// What the literal (quotes included) stands for; nothing when `literal` is not exactly one string literal. Lone
// surrogates read as U+FFFD. Raw control characters are tolerated.
std::optional<std::string> decode_json_string(std::string_view literal);

// `json` with raw control characters inside its strings escaped.
std::string escape_controls_in_strings(std::string_view json);

}  // namespace tempo9::chat::tools
