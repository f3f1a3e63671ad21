#include "grammar/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/utf8.h"

namespace tempo9::grammar {
namespace {

// Code points whose UTF-8 has the same number of bytes, surrogates left out.
struct SameLength {
  char32_t first;
  char32_t last;
};
constexpr std::array kSameLength = {SameLength{0, 0x7F}, SameLength{0x80, 0x7FF}, SameLength{0x800, 0xD7FF},
                                    SameLength{0xE000, 0xFFFF}, SameLength{0x10000, 0x10FFFF}};

}  // namespace

NodeId AutomatonBuilder::add_node() {
  edges_.emplace_back();
  is_text_.push_back(false);
  return static_cast<NodeId>(edges_.size() - 1);
}

RuleId AutomatonBuilder::add_rule() {
  starts_.push_back(add_node());
  return static_cast<RuleId>(starts_.size() - 1);
}

uint32_t AutomatonBuilder::add_limits(Limits limits) {
  const auto found = std::ranges::find(limits_, limits);
  if (found != limits_.end()) return static_cast<uint32_t>(found - limits_.begin());
  limits_.push_back(limits);
  return static_cast<uint32_t>(limits_.size() - 1);
}

void AutomatonBuilder::add_bytes(NodeId from, uint8_t first, uint8_t last, NodeId to, Counting counting) {
  add(from, {.kind = Edge::Kind::kBytes,
             .count = counting.count,
             .first = first,
             .last = last,
             .target = to,
             .limits = add_limits(counting.limits)});
}

void AutomatonBuilder::add_free(NodeId from, NodeId to, Counting counting) {
  add(from, {.kind = Edge::Kind::kFree, .count = counting.count, .target = to, .limits = add_limits(counting.limits)});
}

NodeId AutomatonBuilder::add_literal(NodeId from, std::string_view text) {
  for (const char byte : text) {
    const NodeId next = add_node();
    add_byte(from, byte, next);
    from = next;
  }
  return from;
}

// A range is cut until all but the first differing byte runs over all continuations; then each part is a chain of byte
// ranges.
void AutomatonBuilder::add_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting) {
  for (const SameLength& part : kSameLength) {
    const char32_t low = std::max(first, part.first);
    const char32_t high = std::min(last, part.last);
    if (low > high) continue;
    for (char32_t tail = 0x3F; tail < high - low + 1 && tail <= 0x3FFFF; tail = tail << 6 | 0x3F) {
      if ((low & ~tail) == (high & ~tail)) continue;
      if ((low & tail) != 0) {
        add_characters(from, low, low | tail, to, counting);
        return add_characters(from, (low | tail) + 1, last, to, counting);
      }
      if ((high & tail) != tail) {
        add_characters(from, low, (high & ~tail) - 1, to, counting);
        return add_characters(from, high & ~tail, last, to, counting);
      }
    }
    std::string low_bytes, high_bytes;
    append_utf8(low_bytes, low);
    append_utf8(high_bytes, high);
    NodeId node = from;
    for (size_t i = 0; i < low_bytes.size(); ++i) {
      const NodeId next = i + 1 == low_bytes.size() ? to : add_node();
      add_bytes(node, static_cast<uint8_t>(low_bytes[i]), static_cast<uint8_t>(high_bytes[i]), next,
                i == 0 ? counting : Counting{});
      node = next;
    }
  }
}

// Nodes from which the end of their rule can be reached.
std::vector<bool> AutomatonBuilder::find_productive() const {
  std::vector<bool> productive(edges_.size(), false);
  for (bool changed = true; changed;) {
    changed = false;
    // Edges mostly lead to later nodes: backwards, few rounds are enough.
    for (size_t i = edges_.size(); i-- > 0;) {
      if (productive[i]) continue;
      productive[i] = std::ranges::any_of(edges_[i], [&](const Edge& edge) {
        if (edge.kind == Edge::Kind::kReturn) return true;
        if (edge.kind == Edge::Kind::kCall && !productive[starts_[edge.rule]]) return false;
        return static_cast<bool>(productive[edge.target]);
      });
      changed |= productive[i];
    }
  }
  return productive;
}

// Looks for a call in a circle of edges that take nothing. (A circle without a call is harmless: it leads to states
// that are there already.)
bool AutomatonBuilder::recurses_on_the_left() const {
  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> states(edges_.size(), State::kNew);
  std::vector<std::pair<NodeId, size_t>> path;  // each node with the number of its edges that were followed
  const auto has_call_since = [&](NodeId node) {
    const auto begin = std::ranges::find(path, node, &std::pair<NodeId, size_t>::first);
    return std::any_of(begin, path.end(),
                       [&](const auto& step) { return edges_[step.first][step.second - 1].kind == Edge::Kind::kCall; });
  };
  for (const NodeId start : starts_) {
    if (states[start] == State::kNew) path.push_back({start, 0});
    while (!path.empty()) {
      auto& [node, next_edge] = path.back();
      states[node] = State::kOpen;
      if (next_edge == edges_[node].size()) {
        states[node] = State::kDone;
        path.pop_back();
        continue;
      }
      const Edge& edge = edges_[node][next_edge++];
      if (edge.kind != Edge::Kind::kFree && edge.kind != Edge::Kind::kCall) continue;
      const NodeId target = edge.kind == Edge::Kind::kCall ? starts_[edge.rule] : edge.target;
      if (states[target] == State::kOpen && has_call_since(target)) return true;
      if (states[target] == State::kNew) path.push_back({target, 0});
    }
  }
  return false;
}

Result<Automaton> AutomatonBuilder::build(RuleId root) && {
  if (is_full()) {
    return fail(ErrorCode::kOutOfCapacity, fmt::format("the grammar needs more than {} nodes", kMaxNodes));
  }
  if (recurses_on_the_left()) {
    return fail(ErrorCode::kInvalidInput, "a definition refers to itself without anything before");
  }
  const std::vector<bool> productive = find_productive();
  if (!productive[starts_[root]]) return fail(ErrorCode::kInvalidInput, "no value satisfies it");
  Automaton out;
  out.begins_.reserve(edges_.size() + 1);
  out.begins_.push_back(0);
  for (const std::vector<Edge>& edges : edges_) {
    for (const Edge& edge : edges) {
      const bool leads_on = edge.kind == Edge::Kind::kReturn || productive[edge.target];
      const bool returns = edge.kind != Edge::Kind::kCall || productive[starts_[edge.rule]];
      if (leads_on && returns) out.edges_.push_back(edge);
    }
    out.begins_.push_back(static_cast<uint32_t>(out.edges_.size()));
  }
  out.is_text_ = std::move(is_text_);
  out.starts_ = std::move(starts_);
  out.limits_ = std::move(limits_);
  out.root_ = root;
  return out;
}

}  // namespace tempo9::grammar
