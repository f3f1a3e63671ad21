// The keyword `pattern`: a subset of the regular expressions of ECMAScript, as pieces of an automaton.
//
// Understood: alternatives, groups (also named and non-capturing), the quantifiers ? * + {n} {n,} {n,m} and their lazy
// forms, classes, the dot, \d \w \s and their opposites, escapes of single characters, ^ at the start and $ at the end
// of an alternative of the whole. Not: look-around, back-references, \b, \p, flags, anchors elsewhere.
#pragma once

#include <string_view>

#include "base/result.h"
#include "grammar/notation.h"

namespace tempo9::grammar {

// Adds to a string, between its delimiters, what matches `pattern`; an end that is not anchored takes any text. In
// JSON, characters are escaped only where it asks for that. Returns the node behind. Errors: kUnsupported for what is
// not in the subset, kInvalidInput for what is no pattern.
Result<NodeId> add_pattern(AutomatonBuilder& builder, Notation& notation, NodeId from, std::string_view pattern,
                           Counting counting);

}  // namespace tempo9::grammar
