#include "kv/prefix_tree.h"

#include <algorithm>

#include "base/check.h"

namespace tempo9::kv {

std::optional<PrefixTree::NodeId> PrefixTree::find_child(NodeId parent, std::span<const int32_t> tokens) const {
  for (const NodeId child : node(parent).children) {
    if (std::ranges::equal(node(child).tokens, tokens)) return child;
  }
  return std::nullopt;
}

std::optional<std::pair<PrefixTree::NodeId, int64_t>> PrefixTree::find_similar_child(
    NodeId parent, std::span<const int32_t> tokens) const {
  std::optional<std::pair<NodeId, int64_t>> best;
  for (const NodeId child : node(parent).children) {
    const int64_t n = std::ranges::mismatch(node(child).tokens, tokens).in2 - tokens.begin();
    if (n > (best ? best->second : 0)) best = {child, n};
  }
  return best;
}

PrefixTree::NodeId PrefixTree::add(NodeId parent, std::span<const int32_t> tokens, std::vector<int32_t> pages) {
  if (free_.empty()) {
    free_.push_back(static_cast<NodeId>(nodes_.size()));
    nodes_.emplace_back();
  }
  const NodeId id = free_.back();
  free_.pop_back();
  ++n_nodes_;
  removable_.erase({node(parent).last_use, parent});
  node(parent).children.push_back(id);
  node(id) = {.tokens = {tokens.begin(), tokens.end()}, .pages = std::move(pages), .parent = parent, .children = {}};
  removable_.insert({0, id});
  touch(id);
  return id;
}

PrefixTree::Node PrefixTree::remove(NodeId id) {
  T9_CHECK(can_go(id));
  removable_.erase({node(id).last_use, id});
  Node removed = std::exchange(node(id), {});
  std::erase(node(removed.parent).children, id);
  if (can_go(removed.parent)) removable_.insert({node(removed.parent).last_use, removed.parent});
  free_.push_back(id);
  --n_nodes_;
  return removed;
}

void PrefixTree::add_user(NodeId id) {
  ++node(id).n_users;
  removable_.erase({node(id).last_use, id});
}

void PrefixTree::drop_user(NodeId id) {
  T9_CHECK(node(id).n_users > 0);
  --node(id).n_users;
  if (can_go(id)) removable_.insert({node(id).last_use, id});
}

void PrefixTree::touch(NodeId id) {
  ++time_;
  for (; id != kRoot; id = node(id).parent) set_last_use(id, time_);
}

std::optional<PrefixTree::NodeId> PrefixTree::oldest() const {
  if (removable_.empty()) return std::nullopt;
  return removable_.begin()->second;
}

std::vector<PrefixTree::NodeId> PrefixTree::all() const {
  std::vector<NodeId> ids;
  std::vector<NodeId> open = node(kRoot).children;
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    ids.push_back(id);
    open.insert(open.end(), node(id).children.begin(), node(id).children.end());
  }
  return ids;
}

bool PrefixTree::can_go(NodeId id) const { return id != kRoot && node(id).children.empty() && node(id).n_users == 0; }

void PrefixTree::set_last_use(NodeId id, uint64_t time) {
  const bool was_removable = removable_.erase({node(id).last_use, id}) > 0;
  node(id).last_use = time;
  if (was_removable) removable_.insert({time, id});
}

}  // namespace tempo9::kv
