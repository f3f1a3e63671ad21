#include "grammar/notation.h"

#include <algorithm>

#include "base/utf8.h"
#include "grammar/free_text.h"

namespace tempo9::grammar {
namespace {

// Bytes that a JSON string cannot hold as they are, and the letter that stands behind a backslash for each.
struct Escape {
  char32_t character;
  char letter;
};
constexpr Escape kEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                               {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

}  // namespace

NodeId JsonNotation::white_space(NodeId from) {
  if (!white_space_) {
    white_space_ = builder_.add_rule();
    const NodeId start = builder_.start(*white_space_);
    for (const char c : {' ', '\t', '\n', '\r'}) {
      builder_.add_byte(start, c, start, Counting::take({0, kMaxWhiteSpace}));
    }
    builder_.add_return(start);
  }
  return call(from, *white_space_);
}

NodeId JsonNotation::close_string(NodeId from, Counting counting) {
  const NodeId to = builder_.add_node();
  builder_.add_byte(from, '"', to, counting);
  return to;
}

NodeId JsonNotation::string_in_rule(NodeId start, Limits characters) {
  const NodeId text = open_string(start);
  if (excluded_.empty()) {
    add_text(text, characters.any() ? Counting::take(characters) : Counting{});
    return close_string(text, Counting::enough(characters));
  }
  const NodeId to = builder_.add_node();
  FreeText inside{.ends = {{"\"", to}}, .characters = characters};
  for (const std::string& excluded : excluded_) inside.ends.push_back({excluded, {}});
  inside.add_json_escapes = [this](NodeId from, NodeId behind, Counting counting) {
    add_escapes(from, behind, counting);
  };
  add_free_text(builder_, text, inside);
  return to;
}

NodeId JsonNotation::hex_digits(NodeId from, int n) {
  for (; n > 0; --n) {
    const NodeId next = builder_.add_node();
    builder_.add_bytes(from, '0', '9', next);
    builder_.add_bytes(from, 'a', 'f', next);
    builder_.add_bytes(from, 'A', 'F', next);
    from = next;
  }
  return from;
}

// Surrogates only in pairs.
void JsonNotation::add_escapes(NodeId from, NodeId to, Counting counting) {
  const NodeId escape = builder_.add_node();
  builder_.add_byte(from, '\\', escape, counting);
  for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) builder_.add_byte(escape, c, to);
  const auto add_any = [&](NodeId node, std::string_view bytes, NodeId next) {
    for (const char c : bytes) builder_.add_byte(node, c, next);
  };
  const NodeId code = builder_.add_literal(escape, "u");
  const NodeId three_more = builder_.add_node();
  add_any(code, "0123456789abcefABCEF", three_more);
  builder_.add_free(hex_digits(three_more, 3), to);
  const NodeId behind_d = builder_.add_node();
  add_any(code, "dD", behind_d);
  const NodeId two_more = builder_.add_node();
  add_any(behind_d, "01234567", two_more);
  builder_.add_free(hex_digits(two_more, 2), to);
  const NodeId high = builder_.add_node();
  add_any(behind_d, "89abAB", high);
  const NodeId second = builder_.add_literal(hex_digits(high, 2), "\\u");
  const NodeId second_d = builder_.add_node();
  add_any(second, "dD", second_d);
  const NodeId low = builder_.add_node();
  add_any(second_d, "cdefCDEF", low);
  builder_.add_free(hex_digits(low, 2), to);
}

// Those that need no escape.
void JsonNotation::add_plain_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) {
  const auto add_part = [&](char32_t low, char32_t high) {
    const char32_t begin = std::max(first, low);
    const char32_t end = std::min(last, high);
    if (begin <= end) builder_.add_characters(from, begin, end, to, counting);
  };
  add_part(' ', '"' - 1);
  add_part('"' + 1, '<' - 1);
  if (excluded_.empty()) add_part('<', '<');
  add_part('<' + 1, '\\' - 1);
  add_part('\\' + 1, kLastCodePoint);
}

void JsonNotation::add_text(NodeId node, Counting counting) {
  add_plain_characters(node, 0, kLastCodePoint, node, counting);
  add_escapes(node, node, counting);
  builder_.mark_text(node);
}

void JsonNotation::add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) {
  constexpr std::string_view kHex = "0123456789abcdef";
  for (char32_t c = first; c <= std::min<char32_t>(last, '\\'); ++c) {
    if (c >= ' ' && c != '"' && c != '\\') continue;
    const NodeId escape = builder_.add_node();
    builder_.add_byte(from, '\\', escape, counting);
    const auto* found = std::ranges::find(kEscapes, c, &Escape::character);
    if (found != std::end(kEscapes)) {
      builder_.add_byte(escape, found->letter, to);
    } else {
      const std::string text = std::string("u00") + kHex[c >> 4] + kHex[c & 0xF];
      builder_.add_free(builder_.add_literal(escape, text), to);
    }
  }
  add_plain_characters(from, first, last, to, counting);
}

NodeId JsonNotation::name_other_than(NodeId from, const std::vector<std::string>& names) {
  const auto add = [&](NodeId node, char32_t first, char32_t last, NodeId to) {
    add_plain_characters(node, first, last, to);
  };
  const auto end = [&](NodeId node, NodeId to) { builder_.add_byte(node, '"', to); };
  return names_but(open_string(from), names, add, end, /*is_text=*/true);
}

}  // namespace tempo9::grammar
