#include "grammar/notation.h"

#include <algorithm>

#include "base/utf8.h"

namespace tempo9::grammar {

NodeId Notation::call(NodeId from, RuleId rule) {
  const NodeId to = builder_.add_node();
  builder_.add_call(from, rule, to);
  return to;
}

NodeId Notation::string(NodeId from, Limits characters) {
  const auto [found, is_new] = strings_.try_emplace({characters.min, characters.max}, 0);
  if (is_new) {
    found->second = builder_.add_rule();
    builder_.add_return(string_in_rule(builder_.start(found->second), characters));
  }
  return call(from, found->second);
}

NodeId Notation::digits(NodeId from) {
  if (!digits_) {
    digits_ = builder_.add_rule();
    const Counting counting = Counting::take({0, kMaxDigits});
    const NodeId more = builder_.add_node();
    builder_.add_bytes(builder_.start(*digits_), '0', '9', more, counting);
    builder_.add_bytes(more, '0', '9', more, counting);
    builder_.add_return(more);
  }
  return call(from, *digits_);
}

// Two digits of exponent keep every number finite in a double.
NodeId Notation::number(NodeId from) {
  const NodeId to = builder_.add_node();
  const NodeId whole = integer(from, std::nullopt, std::nullopt);
  const NodeId fraction = digits(builder_.add_literal(whole, "."));
  const NodeId exponent = builder_.add_node();
  for (const NodeId node : {whole, fraction}) {
    builder_.add_free(node, to);
    for (const char c : {'e', 'E'}) builder_.add_byte(node, c, exponent);
  }
  const NodeId signed_exponent = builder_.add_node();
  for (const char c : {'+', '-'}) builder_.add_byte(exponent, c, signed_exponent);
  builder_.add_free(exponent, signed_exponent);
  const NodeId one_digit = builder_.add_node();
  builder_.add_bytes(signed_exponent, '0', '9', one_digit);
  builder_.add_bytes(one_digit, '0', '9', to);
  builder_.add_free(one_digit, to);
  return to;
}

NodeId Notation::integer(NodeId from, std::optional<int64_t> min, std::optional<int64_t> max) {
  const NodeId to = builder_.add_node();
  const auto magnitude = [](int64_t value) {
    return std::to_string(value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
  };
  if (!max || *max >= 0) {
    const std::string low = min && *min > 0 ? magnitude(*min) : "0";
    if (max) {
      add_naturals(from, low, magnitude(*max), to);
    } else {
      add_naturals_from(from, low, to);
    }
  }
  if (!min || *min < 0) {
    const NodeId minus = builder_.add_literal(from, "-");
    // Without limits -0 is an integer, too: numbers begin with it.
    const std::string low = max && *max < 0 ? magnitude(*max) : (min || max ? "1" : "0");
    if (min) {
      add_naturals(minus, low, magnitude(*min), to);
    } else {
      add_naturals_from(minus, low, to);
    }
  }
  return to;
}

void Notation::add_naturals_from(NodeId from, const std::string& low, NodeId to) {
  add_equally_long(from, low, std::string(low.size(), '9'), to);
  // Longer ones.
  NodeId node = builder_.add_node();
  builder_.add_bytes(from, '1', '9', node);
  for (size_t i = 1; i < low.size(); ++i) {
    const NodeId next = builder_.add_node();
    builder_.add_bytes(node, '0', '9', next);
    node = next;
  }
  builder_.add_free(digits(node), to);
}

void Notation::add_naturals(NodeId from, const std::string& low, const std::string& high, NodeId to) {
  for (size_t n = low.size(); n <= high.size(); ++n) {
    const std::string first = n == low.size() ? low : "1" + std::string(n - 1, '0');
    const std::string last = n == high.size() ? high : std::string(n, '9');
    add_equally_long(from, first, last, to);
  }
}

// REQUIRES: low <= high, of equal length.
void Notation::add_equally_long(NodeId from, std::string_view low, std::string_view high, NodeId to) {
  if (low.empty()) return builder_.add_free(from, to);
  const auto add_rest = [&](char first, char last, std::string_view rest_low, std::string_view rest_high) {
    if (first > last) return;
    const NodeId next = builder_.add_node();
    builder_.add_bytes(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), next);
    add_equally_long(next, rest_low, rest_high, to);
  };
  const std::string zeros(low.size() - 1, '0');
  const std::string nines(low.size() - 1, '9');
  const std::string_view low_rest = low.substr(1);
  const std::string_view high_rest = high.substr(1);
  if (low[0] == high[0]) return add_rest(low[0], low[0], low_rest, high_rest);
  const bool low_is_whole = low_rest == zeros;
  const bool high_is_whole = high_rest == nines;
  if (!low_is_whole) add_rest(low[0], low[0], low_rest, nines);
  add_rest(low_is_whole ? low[0] : static_cast<char>(low[0] + 1),
           high_is_whole ? high[0] : static_cast<char>(high[0] - 1), zeros, nines);
  if (!high_is_whole) add_rest(high[0], high[0], zeros, high_rest);
}

NodeId Notation::one_of(NodeId from, const std::vector<std::string>& texts) {
  const NodeId to = builder_.add_node();
  for (const NodeId end : builder_.add_literals(from, texts)) builder_.add_free(end, to);
  return to;
}

NodeId Notation::names_but(NodeId from, const std::vector<std::string>& names, const AddCharacters& add,
                           const AddEnd& end, bool is_text) {
  struct Place {
    NodeId node = 0;
    std::map<char32_t, size_t> next;
    bool is_name = false;
  };
  // A trie of the names; every way out of it leads to `rest`.
  std::vector<Place> trie(1);
  trie[0].node = from;
  for (const std::string& name : names) {
    size_t at = 0;
    for (size_t pos = 0; pos < name.size();) {
      const auto [found, is_new] = trie[at].next.try_emplace(decode_utf8(name, pos), trie.size());
      at = found->second;
      if (is_new) trie.push_back({.node = builder_.add_node()});
    }
    trie[at].is_name = true;
  }
  const NodeId to = builder_.add_node();
  const NodeId rest = builder_.add_node();
  add(rest, 0, kLastCodePoint, rest);
  end(rest, to);
  if (is_text) builder_.mark_text(rest);
  for (const Place& place : trie) {
    if (is_text) builder_.mark_text(place.node);
    if (!place.is_name) end(place.node, to);
    char32_t begin = 0;
    for (const auto& [c, next] : place.next) {
      if (c > begin) add(place.node, begin, c - 1, rest);
      add(place.node, c, c, trie[next].node);
      begin = c + 1;
    }
    add(place.node, begin, kLastCodePoint, rest);
  }
  return to;
}

NodeId Notation::word_other_than(NodeId from, const std::vector<std::string>& names) {
  struct Range {
    char first;
    char last;
  };
  constexpr Range kWord[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '.'}};
  const auto add = [&](NodeId node, char32_t first, char32_t last, NodeId to) {
    for (const Range& range : kWord) {
      const char32_t low = std::max(first, static_cast<char32_t>(range.first));
      const char32_t high = std::min(last, static_cast<char32_t>(range.last));
      if (low <= high) builder_.add_characters(node, low, high, to);
    }
  };
  const auto end = [&](NodeId node, NodeId to) { builder_.add_free(node, to); };
  std::vector<std::string> excluded = names;
  excluded.emplace_back();  // it is not empty
  return names_but(from, excluded, add, end, /*is_text=*/false);
}

NodeId Notation::constant(NodeId from, const Json& value) {
  if (!value.is_structured()) return builder_.add_literal(from, scalar_text(value));
  NodeId node = white_space(builder_.add_literal(from, value.is_object() ? "{" : "["));
  bool is_first = true;
  for (const auto& [key, element] : value.items()) {
    if (!is_first) node = white_space(builder_.add_literal(white_space(node), ","));
    is_first = false;
    if (value.is_object()) {
      node = name(node, key);
      node = white_space(builder_.add_literal(white_space(node), ":"));
    }
    node = constant(node, element);
  }
  return builder_.add_literal(is_first ? node : white_space(node), value.is_object() ? "}" : "]");
}

NodeId Notation::any_value(NodeId from) {
  if (!any_value_) {
    any_value_ = builder_.add_rule();
    const NodeId start = builder_.start(*any_value_);
    const NodeId end = builder_.add_node();
    builder_.add_return(end);
    builder_.add_free(one_of(start, {"true", "false", "null"}), end);
    builder_.add_free(string(start, {}), end);
    builder_.add_free(number(start), end);
    builder_.add_free(any_object(start), end);
    const NodeId first = white_space(builder_.add_literal(start, "["));
    const NodeId item = builder_.add_node();
    builder_.add_free(first, item);
    const NodeId behind = white_space(any_value(item));
    builder_.add_free(white_space(builder_.add_literal(behind, ",")), item);
    builder_.add_byte(first, ']', end);
    builder_.add_byte(behind, ']', end);
  }
  return call(from, *any_value_);
}

NodeId Notation::any_object(NodeId from) {
  if (!any_object_) {
    any_object_ = builder_.add_rule();
    const NodeId end = builder_.add_node();
    builder_.add_return(end);
    const NodeId first = white_space(builder_.add_literal(builder_.start(*any_object_), "{"));
    const NodeId key = builder_.add_node();
    builder_.add_free(first, key);
    const NodeId colon = builder_.add_literal(white_space(any_name(key)), ":");
    const NodeId behind = white_space(any_value(white_space(colon)));
    builder_.add_free(white_space(builder_.add_literal(behind, ",")), key);
    builder_.add_byte(first, '}', end);
    builder_.add_byte(behind, '}', end);
  }
  return call(from, *any_object_);
}

std::string Notation::text_of(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace tempo9::grammar
