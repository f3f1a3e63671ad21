// How Qwen's XML and Gemma 4 write the arguments of calls (spec tool-calling 3.2, 3.6).
#pragma once

#include <string>
#include <vector>

#include "grammar/notation.h"

namespace tempo9::grammar {

// <parameter=NAME>⏎VALUE⏎</parameter>. A name is the tag with its line end, a value is all that follows up to and with
// the closing tag: a string as it is, anything else as JSON. A string cannot hold what a parser takes for its end:
// </parameter>, </function>, or a line that begins with another parameter.
class XmlNotation : public Notation {
 public:
  XmlNotation(AutomatonBuilder& builder, Notation& json) : Notation(builder), json_(json) {}

  NodeId white_space(NodeId from) override { return from; }
  NodeId open_string(NodeId from) override { return from; }
  NodeId close_string(NodeId from, Counting counting) override;
  // For text with a pattern: no line ends, and no '<'.
  void add_text(NodeId node, Counting counting) override;
  void add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) override;
  NodeId name(NodeId from, const std::string& name) override;
  NodeId name_other_than(NodeId from, const std::vector<std::string>& names) override;
  std::string scalar_text(const Json& value) const override;
  NodeId end_value(NodeId from) override;
  NodeId any_value(NodeId from) override { return string(from, {}); }
  Notation& nested() override { return json_; }

 protected:
  NodeId string_in_rule(NodeId start, Limits characters) override;
  NodeId any_name(NodeId from) override { return name_other_than(from, {}); }

 private:
  Notation& json_;
};

// {key:<|"|>text<|"|>,other:[1,true]}, without white space.
class GemmaNotation : public Notation {
 public:
  using Notation::Notation;

  NodeId white_space(NodeId from) override { return from; }
  NodeId open_string(NodeId from) override;
  NodeId close_string(NodeId from, Counting counting) override;
  // For text with a pattern: no '<'.
  void add_text(NodeId node, Counting counting) override;
  void add_string_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) override;
  NodeId name(NodeId from, const std::string& name) override;
  NodeId name_other_than(NodeId from, const std::vector<std::string>& names) override {
    return word_other_than(from, names);
  }
  std::string scalar_text(const Json& value) const override;
  // As the template writes them.
  bool sorts_names() const override { return true; }

 protected:
  NodeId string_in_rule(NodeId start, Limits characters) override;
  NodeId any_name(NodeId from) override { return word_other_than(from, {}); }
};

}  // namespace tempo9::grammar
