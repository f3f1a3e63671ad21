#include "grammar/automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

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

constexpr int64_t kNoWay = -1;

}  // namespace

void Automaton::add_node(bool is_text, uint32_t room) {
  traits_.push_back(is_text ? kText : 0);
  room_.push_back(room);
  begins_.push_back(static_cast<uint32_t>(edges_.size()));
}

void Automaton::add_edge(const Edge& edge) {
  edges_.push_back(edge);
  begins_.back() = static_cast<uint32_t>(edges_.size());
  traits_.back() |= edge.kind == Edge::Kind::kBytes ? kTakesBytes : kMoves;
  if (edge.kind == Edge::Kind::kReturn) traits_.back() |= kReturns;
}

NodeId AutomatonBuilder::add_node() {
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

void AutomatonBuilder::add(NodeId from, const Edge& edge) {
  const auto place = static_cast<uint32_t>(links_.size());
  links_.push_back({edge});
  Node& node = nodes_[from];
  (node.first_edge == kNone ? node.first_edge : links_[node.last_edge].next) = place;
  node.last_edge = place;
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

std::vector<NodeId> AutomatonBuilder::add_literals(NodeId from, std::span<const std::string> texts) {
  std::map<std::pair<NodeId, char>, NodeId> next;
  std::vector<NodeId> ends;
  for (const std::string& text : texts) {
    NodeId node = from;
    for (const char byte : text) {
      const auto [found, is_new] = next.try_emplace({node, byte}, 0);
      if (is_new) {
        found->second = add_node();
        add_byte(node, byte, found->second);
      }
      node = found->second;
    }
    ends.push_back(node);
  }
  return ends;
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

// The highest count with which the end of the rule can be reached through `edge`, kNoWay when it can't.
int64_t AutomatonBuilder::room_behind(const Edge& edge, const std::vector<int64_t>& room) const {
  if (edge.kind == Edge::Kind::kReturn) return Limits::kUnlimited;
  if (edge.kind == Edge::Kind::kCall && room[starts_[edge.rule]] == kNoWay) return kNoWay;
  const int64_t behind = room[edge.target];
  const Limits& limits = limits_[edge.limits];
  if (behind == kNoWay || edge.count != Edge::Count::kTake || limits.max == Limits::kUnlimited) return behind;
  return std::min<int64_t>(limits.max, behind) - 1;
}

// For each node the highest count with which the end of its rule can be reached from there.
std::vector<int64_t> AutomatonBuilder::find_room() const {
  std::vector<int64_t> room(nodes_.size(), kNoWay);
  for (bool changed = true; changed;) {
    changed = false;
    // Edges mostly lead to later nodes: backwards, few rounds are enough.
    for (size_t i = nodes_.size(); i-- > 0;) {
      for (uint32_t link = nodes_[i].first_edge; link != kNone; link = links_[link].next) {
        const int64_t behind = room_behind(links_[link].edge, room);
        if (behind <= room[i]) continue;
        room[i] = behind;
        changed = true;
      }
    }
  }
  return room;
}

// Looks for a call in a circle of edges that take nothing. (A circle without a call is harmless: it leads to states
// that are there already.)
bool AutomatonBuilder::recurses_on_the_left() const {
  enum class State : uint8_t { kNew, kOpen, kDone };
  struct Step {
    NodeId node;
    uint32_t next_edge;
    bool calls = false;  // the edge that leads on
  };
  std::vector<State> states(nodes_.size(), State::kNew);
  std::vector<Step> path;
  const auto open = [&](NodeId node) {
    states[node] = State::kOpen;
    path.push_back({node, nodes_[node].first_edge});
  };
  const auto has_call_since = [&](NodeId node) {
    const auto begin = std::ranges::find(path, node, &Step::node);
    return std::any_of(begin, path.end(), [](const Step& step) { return step.calls; });
  };
  for (const NodeId start : starts_) {
    if (states[start] == State::kNew) open(start);
    while (!path.empty()) {
      Step& step = path.back();
      if (step.next_edge == kNone) {
        states[step.node] = State::kDone;
        path.pop_back();
        continue;
      }
      const Link& link = links_[step.next_edge];
      step.next_edge = link.next;
      if (link.edge.kind != Edge::Kind::kFree && link.edge.kind != Edge::Kind::kCall) continue;
      step.calls = link.edge.kind == Edge::Kind::kCall;
      const NodeId target = step.calls ? starts_[link.edge.rule] : link.edge.target;
      if (states[target] == State::kOpen && has_call_since(target)) return true;
      if (states[target] == State::kNew) open(target);
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
  const std::vector<int64_t> room = find_room();
  if (room[starts_[root]] == kNoWay) return fail(ErrorCode::kInvalidInput, "no value satisfies it");
  Automaton out;
  out.edges_.reserve(links_.size());
  out.begins_.reserve(nodes_.size() + 1);
  out.traits_.reserve(nodes_.size());
  out.room_.reserve(nodes_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const Node& node = nodes_[n];
    out.add_node(node.is_text, static_cast<uint32_t>(std::max<int64_t>(room[n], 0)));
    for (uint32_t i = node.first_edge; i != kNone; i = links_[i].next) {
      const Edge& edge = links_[i].edge;
      if (room_behind(edge, room) != kNoWay) out.add_edge(edge);
    }
  }
  out.starts_ = std::move(starts_);
  out.limits_ = std::move(limits_);
  out.root_ = root;
  return out;
}

}  // namespace tempo9::grammar
