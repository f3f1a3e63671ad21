#include "grammar/argument_notations.h"

#include <algorithm>
#include <string_view>

#include "base/utf8.h"
#include "grammar/free_text.h"

namespace tempo9::grammar {
namespace {

constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kQuote = "<|\"|>";

// Without '<', with which markup begins.
void add_without_markup(AutomatonBuilder& builder, NodeId from, char32_t first, char32_t last, NodeId to,
                        Counting counting) {
  if (first < '<') builder.add_characters(from, first, std::min<char32_t>(last, '<' - 1), to, counting);
  if (last > '<') builder.add_characters(from, std::max<char32_t>(first, '<' + 1), last, to, counting);
}

bool is_word(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-' ||
           c == '.';
  });
}

}  // namespace

NodeId XmlNotation::end_value(NodeId from) {
  return builder_.add_literal(from, std::string("\n").append(kParameterEnd));
}

NodeId XmlNotation::close_string(NodeId from, Counting counting) {
  const NodeId end = builder_.add_node();
  builder_.add_free(from, end, counting);
  return end_value(end);
}

// With limits the line end before the closing tag, which is none of the value's, must be there: it would count.
NodeId XmlNotation::string_in_rule(NodeId start, Limits characters) {
  const NodeId to = builder_.add_node();
  const std::string end(kParameterEnd);
  if (!characters.any()) {
    add_free_text(builder_, start, {.ends = {{end, to}, {"</function>", {}}, {"\n<parameter=", {}}}, .before = "\n"});
    return to;
  }
  // Behind the line end of the opening tag the closing one may follow at once.
  if (characters.min == 0) builder_.add_free(builder_.add_literal(start, end), to);
  // A carriage return at the end would go with the line end.
  add_free_text(builder_, start,
                {.ends = {{"\n" + end, to}, {end, {}}, {"</function>", {}}, {"<parameter=", {}}, {"\r", {}}},
                 .characters = characters});
  return to;
}

void XmlNotation::add_text(NodeId node, Counting counting) {
  add_string_characters(node, 0, kLastCodePoint, node, counting);
  builder_.mark_text(node);
}

void XmlNotation::add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) {
  if (first < '\n') add_without_markup(builder_, from, first, std::min<char32_t>(last, '\n' - 1), to, counting);
  if (first <= '\f' && last >= '\v') {
    add_without_markup(builder_, from, std::max<char32_t>(first, '\v'), std::min<char32_t>(last, '\f'), to, counting);
  }
  if (last > '\r') add_without_markup(builder_, from, std::max<char32_t>(first, '\r' + 1), last, to, counting);
}

NodeId XmlNotation::name(NodeId from, const std::string& name) {
  return builder_.add_literal(from, "<parameter=" + name + ">\n");
}

NodeId XmlNotation::name_other_than(NodeId from, const std::vector<std::string>& names) {
  return builder_.add_literal(word_other_than(builder_.add_literal(from, "<parameter="), names), ">\n");
}

std::string XmlNotation::scalar_text(const Json& value) const {
  return value.is_string() ? value.get<std::string>() : text_of(value);
}

NodeId GemmaNotation::open_string(NodeId from) { return builder_.add_literal(from, kQuote); }

NodeId GemmaNotation::close_string(NodeId from, Counting counting) {
  const NodeId end = builder_.add_node();
  builder_.add_free(from, end, counting);
  return builder_.add_literal(end, kQuote);
}

// A parser takes the end of the call for that of a string which was left open.
NodeId GemmaNotation::string_in_rule(NodeId start, Limits characters) {
  const NodeId to = builder_.add_node();
  add_free_text(builder_, open_string(start),
                {.ends = {{std::string(kQuote), to}, {"<tool_call|>", {}}}, .characters = characters});
  return to;
}

void GemmaNotation::add_text(NodeId node, Counting counting) {
  add_string_characters(node, 0, kLastCodePoint, node, counting);
  builder_.mark_text(node);
}

void GemmaNotation::add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) {
  add_without_markup(builder_, from, first, last, to, counting);
}

NodeId GemmaNotation::name(NodeId from, const std::string& name) {
  return builder_.add_literal(from, is_word(name) ? name : scalar_text(name));
}

std::string GemmaNotation::scalar_text(const Json& value) const {
  if (!value.is_string()) return text_of(value);
  return std::string(kQuote).append(value.get<std::string>()).append(kQuote);
}

}  // namespace tempo9::grammar
