// Cutting and replacing text with its origins kept; shared by filters and methods.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/template/context.h"
#include "chat/template/text.h"

namespace tempo9::chat {

// Pieces between separators, at most `limit` cuts when it is not negative. REQUIRES: separator is not empty.
std::vector<Text> split_at(const Text& text, std::string_view separator, int64_t limit);
// The same from the right.
std::vector<Text> split_at_from_right(const Text& text, std::string_view separator, int64_t limit);
// Pieces between runs of white space; none are empty.
std::vector<Text> split_space(const Text& text, int64_t limit);
// Python's splitlines; `keeps_ends` leaves the line breaks on.
std::vector<Text> split_lines(const Text& text, bool keeps_ends = false);

// For HTML. Text from the template stays that if there is nothing else in it.
Text escape(const Text& text);

// At most `limit` replacements when it is not negative. An empty `old_text` stands before, between and after all
// characters. Errors: the meter's when the result would be too long.
Result<Text> replace(Context& context, const Text& text, const Text& old_text, const Text& new_text, int64_t limit);

}  // namespace tempo9::chat
