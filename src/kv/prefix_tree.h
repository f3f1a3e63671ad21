// The tokens that the cache still holds pages of, as a tree: a node is one page, a path from the root is a text that
// some sequence began with. Knows numbers only; who owns the pages is cache.cpp's business.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace tempo9::kv {

class PrefixTree {
 public:
  using NodeId = int32_t;
  static constexpr NodeId kRoot = 0;
  static constexpr int32_t kNoState = -1;

  struct Node {
    std::vector<int32_t> tokens;  // of the page: all of its slots, or the first few (then there are no children)
    std::vector<int32_t> pages;   // one per pool; kNoPage where it is not held any more
    int32_t state = kNoState;     // slot with the recurrent state after the last token
    uint64_t pages_write = 0;     // id of the write to disk that still reads the pages; 0: none
    uint64_t state_write = 0;     // the same of the state

    NodeId parent = kRoot;
    std::vector<NodeId> children;
    int32_t n_users = 0;
    uint64_t last_use = 0;
  };

  PrefixTree() : nodes_(1) {}

  const Node& node(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  int64_t n_nodes() const { return n_nodes_; }  // without the root

  // The child with exactly these tokens.
  std::optional<NodeId> find_child(NodeId parent, std::span<const int32_t> tokens) const;
  // The child that begins most like `tokens`, and how many tokens agree: at least one.
  std::optional<std::pair<NodeId, int64_t>> find_similar_child(NodeId parent, std::span<const int32_t> tokens) const;

  NodeId add(NodeId parent, std::span<const int32_t> tokens, std::vector<int32_t> pages);
  // Takes a node out. REQUIRES: no children, no users.
  Node remove(NodeId id);

  // A node with users, and all above it, stays.
  void add_user(NodeId id);
  void drop_user(NodeId id);
  // The path to this node was used now.
  void touch(NodeId id);
  // The node that was used longest ago among those that can be removed.
  std::optional<NodeId> oldest() const;

  // Every node's id, for searches that are rare.
  std::vector<NodeId> all() const;

 private:
  bool can_go(NodeId id) const;
  void set_last_use(NodeId id, uint64_t time);

  std::vector<Node> nodes_;
  std::vector<NodeId> free_;
  int64_t n_nodes_ = 0;
  uint64_t time_ = 0;
  std::set<std::pair<uint64_t, NodeId>> removable_;  // by last_use
};

}  // namespace tempo9::kv
