// The automaton that a grammar is compiled to: nodes with edges over bytes, grouped in rules that may call each other.
// With its calls it is a pushdown automaton, so recursion needs no expansion; with one counter per call, a limit on a
// length or a number of items costs no nodes.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tempo9::grammar {

using NodeId = uint32_t;
using RuleId = uint32_t;

// Characters that have no meaning in any notation: no quote, backslash or control, and no '<', with which markup
// begins. Said of a byte of UTF-8.
constexpr bool is_plain(char byte) {
  return static_cast<uint8_t>(byte) >= 0x20 && byte != '"' && byte != '\\' && byte != '<';
}

// How often something may occur.
struct Limits {
  static constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();
  uint32_t min = 0;
  uint32_t max = kUnlimited;

  bool any() const { return min > 0 || max != kUnlimited; }
  bool operator==(const Limits&) const = default;
};

struct Edge {
  enum class Kind : uint8_t {
    kBytes,   // takes one byte from `first` to `last`
    kFree,    // takes nothing
    kCall,    // goes to the start of `rule` with a new counter, and to `target` when that returns
    kReturn,  // ends the rule
  };
  // What the edge does with the counter of its rule, by the `limits` it names.
  enum class Count : uint8_t {
    kNothing,
    kTake,    // adds one; closed at the maximum
    kEnough,  // closed below the minimum
  };

  Kind kind = Kind::kFree;
  Count count = Count::kNothing;
  uint8_t first = 0;
  uint8_t last = 0;
  NodeId target = 0;
  RuleId rule = 0;
  uint32_t limits = 0;  // index
};

// What an edge does with the counter of its rule, to build it with.
struct Counting {
  Edge::Count count = Edge::Count::kNothing;
  Limits limits = {};

  static Counting take(Limits limits) { return {Edge::Count::kTake, limits}; }
  static Counting enough(Limits limits) { return {Edge::Count::kEnough, limits}; }
};

// Immutable; any thread may read.
class Automaton {
 public:
  std::span<const Edge> edges(NodeId node) const {
    return std::span(edges_).subspan(begins_[node], begins_[node + 1] - begins_[node]);
  }
  NodeId start(RuleId rule) const { return starts_[rule]; }
  RuleId root() const { return root_; }
  const Limits& limits(const Edge& edge) const { return limits_[edge.limits]; }
  // Any text of plain characters may follow this node, as far as the counter allows where the edges take from it.
  bool is_text(NodeId node) const { return (traits_[node] & kText) != 0; }
  bool takes_bytes(NodeId node) const { return (traits_[node] & kTakesBytes) != 0; }
  bool returns(NodeId node) const { return (traits_[node] & kReturns) != 0; }
  // The end of its rule can be reached from here with a counter that stands at `count`.
  bool has_room(NodeId node, uint32_t count) const { return count <= room_[node]; }
  // Has edges that take no byte.
  bool moves(NodeId node) const { return (traits_[node] & kMoves) != 0; }
  size_t n_nodes() const { return traits_.size(); }

 private:
  friend class AutomatonBuilder;

  // What the edges of a node are, to save looking at them.
  enum Trait : uint8_t { kText = 1, kTakesBytes = 2, kReturns = 4, kMoves = 8 };
  void add_node(bool is_text, uint32_t room);
  void add_edge(const Edge& edge);

  std::vector<Edge> edges_;
  std::vector<uint32_t> begins_ = {0};
  std::vector<uint8_t> traits_;
  std::vector<uint32_t> room_;  // the highest count that leaves a way to the end; Limits::kUnlimited: any
  std::vector<NodeId> starts_;
  std::vector<Limits> limits_;
  RuleId root_ = 0;
};

class AutomatonBuilder {
 public:
  // Bounds memory and compile time for schemas from outside.
  static constexpr size_t kMaxNodes = 500'000;

  NodeId add_node();
  // A rule that begins at a new node.
  RuleId add_rule();
  NodeId start(RuleId rule) const { return starts_[rule]; }

  void add_bytes(NodeId from, uint8_t first, uint8_t last, NodeId to, Counting counting = {});
  void add_byte(NodeId from, char byte, NodeId to, Counting counting = {}) {
    add_bytes(from, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to, counting);
  }
  void add_free(NodeId from, NodeId to, Counting counting = {});
  void add_call(NodeId from, RuleId rule, NodeId to) {
    add(from, {.kind = Edge::Kind::kCall, .target = to, .rule = rule});
  }
  void add_return(NodeId from) { add(from, {.kind = Edge::Kind::kReturn}); }
  // The bytes of `text` one after another; returns where they lead.
  NodeId add_literal(NodeId from, std::string_view text);
  // Each of `texts`, what they begin with alike written once; returns where each leads. The same text twice leads to
  // the same node.
  std::vector<NodeId> add_literals(NodeId from, std::span<const std::string> texts);
  // Code points from `first` to `last` as UTF-8, surrogates left out. Each counts once.
  void add_characters(NodeId from, char32_t first, char32_t last, NodeId to, Counting counting = {});
  void mark_text(NodeId node) { nodes_[node].is_text = true; }

  bool is_full() const { return nodes_.size() > kMaxNodes; }

  // Drops every edge from which no end can be reached, and knows for each node how high a count may stand there, so
  // that a matcher never runs into a dead end (minima aside).
  // Errors: kInvalidInput when nothing at all matches, or a rule can call itself without taking a byte;
  // kOutOfCapacity when there are too many nodes.
  Result<Automaton> build(RuleId root) &&;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The edges of a node are a list through one array: most nodes have one.
  struct Node {
    uint32_t first_edge = kNone;
    uint32_t last_edge = kNone;
    bool is_text = false;
  };
  struct Link {
    Edge edge;
    uint32_t next = kNone;
  };

  void add(NodeId from, const Edge& edge);
  uint32_t add_limits(Limits limits);
  int64_t room_behind(const Edge& edge, const std::vector<int64_t>& room) const;
  std::vector<int64_t> find_room() const;
  bool recurses_on_the_left() const;

  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<NodeId> starts_;
  std::vector<Limits> limits_;
};

}  // namespace tempo9::grammar
