// How values are written: the parts of JSON, or of a model family's own way to write arguments, as pieces of an
// automaton. Each function adds one between `from` and the node it returns, unless it says otherwise.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grammar/automaton.h"

namespace tempo9::grammar {

using Json = nlohmann::ordered_json;

class Notation {
 public:
  explicit Notation(AutomatonBuilder& builder) : builder_(builder) {}
  virtual ~Notation() = default;
  Notation(const Notation&) = delete;
  Notation& operator=(const Notation&) = delete;

  // --- what notations write differently

  // Where white space may stand between the tokens of a value.
  virtual NodeId white_space(NodeId from) = 0;
  // The delimiters of a string; the second is closed below the minimum of `counting`.
  virtual NodeId open_string(NodeId from) = 0;
  virtual NodeId close_string(NodeId from, Counting counting) = 0;
  // Lets any character of a string lead from `node` to itself; for text beside a pattern.
  virtual void add_text(NodeId node, Counting counting) = 0;
  // Lets each character of these code points lead from `from` to `to`.
  virtual void add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) = 0;
  // The name of a property, and one that is none of `names`.
  virtual NodeId name(NodeId from, const std::string& name) = 0;
  virtual NodeId name_other_than(NodeId from, const std::vector<std::string>& names) = 0;
  // How a string, number or word is written.
  virtual std::string scalar_text(const Json& value) const { return text_of(value); }
  // Behind a value that is no string.
  virtual NodeId end_value(NodeId from) { return from; }
  virtual NodeId any_value(NodeId from);
  // What stands inside of arrays and objects is written in this one.
  virtual Notation& nested() { return *this; }
  // Properties come in the order of their names.
  virtual bool sorts_names() const { return false; }

  // --- what they have in common

  // With that many characters.
  NodeId string(NodeId from, Limits characters);
  NodeId number(NodeId from);
  // In a row, where nothing else limits them: models that may write them for ever sometimes do. No integer of 64 bits
  // and no double needs more.
  static constexpr uint32_t kMaxDigits = 24;
  // An integer in decimal, without exponent, from `min` to `max` where given. REQUIRES: *min <= *max.
  NodeId integer(NodeId from, std::optional<int64_t> min, std::optional<int64_t> max);
  // One of these texts.
  NodeId one_of(NodeId from, const std::vector<std::string>& texts);
  // This value, with white space where it may stand.
  NodeId constant(NodeId from, const Json& value);
  NodeId any_object(NodeId from);

  // A value as compact JSON; ill-formed text in it becomes U+FFFD.
  static std::string text_of(const Json& value);

 protected:
  // A whole string behind the start of a rule of its own; returns where that ends.
  virtual NodeId string_in_rule(NodeId start, Limits characters) = 0;
  virtual NodeId any_name(NodeId from) = 0;

  // Names other than `names`, which are what it is about: `add` lets characters of a range lead from one node to
  // another, `end` lets a name end.
  using AddCharacters = std::function<void(NodeId from, char32_t first, char32_t last, NodeId to)>;
  using AddEnd = std::function<void(NodeId from, NodeId to)>;
  NodeId names_but(NodeId from, const std::vector<std::string>& names, const AddCharacters& add, const AddEnd& end,
                   bool is_text);
  // The same, of letters, digits, underscores, hyphens and dots, one at least.
  NodeId word_other_than(NodeId from, const std::vector<std::string>& names);
  NodeId call(NodeId from, RuleId rule);

  AutomatonBuilder& builder_;

 private:
  // One at least, and kMaxDigits at most.
  NodeId digits(NodeId from);
  void add_naturals_from(NodeId from, const std::string& low, NodeId to);
  void add_naturals(NodeId from, const std::string& low, const std::string& high, NodeId to);
  void add_equally_long(NodeId from, std::string_view low, std::string_view high, NodeId to);

  std::optional<RuleId> digits_;
  std::optional<RuleId> any_value_;
  std::optional<RuleId> any_object_;
  std::map<std::pair<uint32_t, uint32_t>, RuleId> strings_;  // by their limits
};

class JsonNotation : public Notation {
 public:
  // Between tokens at most so many characters of white space: models that may write it for ever sometimes do.
  static constexpr uint32_t kMaxWhiteSpace = 64;

  // `excluded`: what cannot stand in a string, because a parser of what is around it would end it there; each begins
  // with '<'. Text with a pattern, and names, then have no '<' at all.
  explicit JsonNotation(AutomatonBuilder& builder, std::vector<std::string> excluded = {})
      : Notation(builder), excluded_(std::move(excluded)) {}

  NodeId white_space(NodeId from) override;
  NodeId open_string(NodeId from) override { return builder_.add_literal(from, "\""); }
  NodeId close_string(NodeId from, Counting counting) override;
  // An escape counts as the character it stands for.
  void add_text(NodeId node, Counting counting) override;
  // Escaped where JSON asks for it.
  void add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) override;
  NodeId name(NodeId from, const std::string& name) override { return builder_.add_literal(from, text_of(name)); }
  // Without escapes, so that it cannot be one of the names in other letters.
  NodeId name_other_than(NodeId from, const std::vector<std::string>& names) override;

 protected:
  NodeId string_in_rule(NodeId start, Limits characters) override;
  NodeId any_name(NodeId from) override { return string(from, {}); }

 private:
  void add_plain_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting = {});
  void add_escapes(NodeId from, NodeId to, Counting counting);
  NodeId hex_digits(NodeId from, int n);

  const std::vector<std::string> excluded_;
  std::optional<RuleId> white_space_;
};

}  // namespace tempo9::grammar
