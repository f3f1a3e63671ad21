// Gemma 4's way of writing values: <|"|>text<|"|>, numbers, true, false, null, [v,v], {key:v}. Spec tool-calling 3.6.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tempo9::chat::tools {

inline constexpr std::string_view kGemmaQuote = "<|\"|>";
inline constexpr int kMaxGemmaNesting = 100;

// A whole value as compact JSON. Besides the native quotes it knows JSON and single ones; bare words that are no
// literal are strings. Nothing when brackets or quotes do not close.
std::optional<std::string> gemma_value_to_json(std::string_view text);

// A bare word: a JSON literal as it is, anything else as a string without the white space around it.
std::string gemma_bare_to_json(std::string_view text);

}  // namespace tempo9::chat::tools
