// Text of a model up to the first of some markers: reasoning, prose before a call, values without escapes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "grammar/automaton.h"

namespace tempo9::grammar {

struct TextEnd {
  std::string marker;  // ASCII, not empty
  // Where the text leads when it ends with the marker; nothing: the marker does not occur.
  std::optional<NodeId> behind;
};

struct FreeText {
  std::vector<TextEnd> ends;
  // What stands before the text: a marker may begin in it. REQUIRES: it does not hold one.
  std::string before = {};
  // How many, not counting the marker that ends the text. Unless unlimited, the text must have a rule of its own.
  Limits characters = {};
  // The rule may return anywhere in the text.
  bool may_return = false;
  // White space aside, the text begins with none of these.
  std::string not_first = {};
  // The text is inside a JSON string: without controls, and what this adds, an escape that leads from one node to
  // another, counts as one character.
  std::function<void(NodeId from, NodeId to, Counting counting)> add_json_escapes = {};
};

// Adds well-formed UTF-8 behind `from`. Where one marker is the beginning of another only the shorter one is found.
void add_free_text(AutomatonBuilder& builder, NodeId from, const FreeText& text);

}  // namespace tempo9::grammar
