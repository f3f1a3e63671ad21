// The parts of JSON as pieces of an automaton. Each function adds one between `from` and the node it returns.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/automaton.h"

namespace tempo9::grammar {

using Json = nlohmann::ordered_json;

class JsonRules {
 public:
  // Between tokens at most so many characters of white space: models that may write it for ever sometimes do.
  static constexpr uint32_t kMaxWhiteSpace = 64;

  explicit JsonRules(AutomatonBuilder& builder) : builder_(builder) {}

  NodeId white_space(NodeId from);
  // With that many characters; an escape counts as the character it stands for.
  NodeId string(NodeId from, Limits characters);
  NodeId number(NodeId from);
  // An integer in decimal, without exponent, from `min` to `max` where given. REQUIRES: *min <= *max.
  NodeId integer(NodeId from, std::optional<int64_t> min, std::optional<int64_t> max);
  // One of these texts.
  NodeId one_of(NodeId from, const std::vector<std::string>& texts);
  // This value, with white space where JSON allows it.
  NodeId constant(NodeId from, const Json& value);
  // A string that is none of `names`. Without escapes, so that it cannot be one of them in other letters.
  NodeId name_other_than(NodeId from, const std::vector<std::string>& names);
  NodeId any_value(NodeId from);
  NodeId any_object(NodeId from);

  // Lets any character of a JSON string, escaped ones included, lead from `node` to itself.
  void add_text(NodeId node, Counting counting);
  // Lets each character of these code points lead from `from` to `to`, escaped where JSON asks for it.
  void add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting);

  // How a value is written; ill-formed text in it becomes U+FFFD.
  static std::string text_of(const Json& value);

 private:
  void add_plain_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting = {});
  void add_escapes(NodeId from, NodeId to, Counting counting);
  NodeId hex_digits(NodeId from, int n);
  NodeId digits(NodeId from);
  void add_naturals_from(NodeId from, const std::string& low, NodeId to);
  void add_naturals(NodeId from, const std::string& low, const std::string& high, NodeId to);
  void add_equally_long(NodeId from, std::string_view low, std::string_view high, NodeId to);

  AutomatonBuilder& builder_;
  std::optional<RuleId> white_space_;
  std::optional<RuleId> any_value_;
  std::optional<RuleId> any_object_;
  std::map<std::pair<uint32_t, uint32_t>, RuleId> strings_;  // by their limits
};

}  // namespace tempo9::grammar
