#include "kv/disk/index.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/kv_view.h"

namespace tempo9::kv::disk {
namespace {

using NodeId = PrefixTree::NodeId;
constexpr auto kPage = static_cast<size_t>(tensor::kPageTokens);
constexpr int32_t kNoSegment = -1;

}  // namespace

// The nodes of a text, added where there are none. Gives the last.
NodeId Index::path_to(std::span<const int32_t> tokens, std::vector<NodeId>& path) {
  NodeId node = PrefixTree::kRoot;
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(kPage, tokens.size()))) {
    const auto page = tokens.first(std::min(kPage, tokens.size()));
    const auto child = tree_.find_child(node, page);
    std::vector<int32_t> unknown(static_cast<size_t>(n_pools_) + 1, 0);
    unknown[0] = kNoSegment;
    node = child ? *child : tree_.add(node, page, std::move(unknown));
    path.push_back(node);
  }
  return node;
}

std::optional<SegmentId> Index::add(std::string name, const SegmentHead& head) {
  if (free_.empty()) {
    free_.push_back(static_cast<SegmentId>(segments_.size()));
    segments_.emplace_back();
  }
  const SegmentId id = free_.back();
  Segment& segment = segments_[static_cast<size_t>(id)];
  std::vector<NodeId> path;
  const NodeId last = path_to(head.tokens, path);
  for (int64_t page = 0; page < head.n_pages(); ++page) {
    const NodeId node = path[static_cast<size_t>(head.first_page + page)];
    std::vector<int32_t>& place = tree_.node(node).pages;
    if (place[0] != kNoSegment) continue;
    place[0] = id;
    for (int32_t pool = 0; pool < n_pools_; ++pool) {
      place[static_cast<size_t>(pool) + 1] = head.is_present(page, pool, n_pools_) ? 1 : 0;
    }
    segment.nodes.push_back(node);
  }
  if (head.has_state && tree_.node(last).state == PrefixTree::kNoState) {
    tree_.node(last).state = id;
    segment.state_of = last;
  }
  if (segment.nodes.empty() && segment.state_of == PrefixTree::kRoot) {
    prune(last);
    return std::nullopt;
  }
  segment.name = std::move(name);
  free_.pop_back();
  ++n_segments_;
  return id;
}

void Index::remove(SegmentId id) {
  Segment segment = std::exchange(segments_[static_cast<size_t>(id)], {});
  T9_CHECK(!segment.name.empty());
  for (const NodeId node : segment.nodes) tree_.node(node).pages[0] = kNoSegment;
  if (segment.state_of != PrefixTree::kRoot) tree_.node(segment.state_of).state = PrefixTree::kNoState;
  // A state is that of the segment's end, so no page lies deeper.
  prune(segment.state_of != PrefixTree::kRoot ? segment.state_of : segment.nodes.back());
  free_.push_back(id);
  --n_segments_;
}

// Takes out the node, and those above it, as long as nothing is known of them or below them.
void Index::prune(NodeId id) {
  while (id != PrefixTree::kRoot) {
    const PrefixTree::Node& node = tree_.node(id);
    if (!node.children.empty() || node.pages[0] != kNoSegment || node.state != PrefixTree::kNoState) return;
    const NodeId parent = node.parent;
    tree_.remove(id);
    id = parent;
  }
}

std::optional<SegmentId> Index::find(const std::string& name) const {
  const auto found = std::ranges::find(segments_, name, &Segment::name);
  if (found == segments_.end()) return std::nullopt;
  return static_cast<SegmentId>(found - segments_.begin());
}

IndexedPage Index::describe(NodeId id) const {
  const PrefixTree::Node& node = tree_.node(id);
  IndexedPage page;
  if (node.pages[0] != kNoSegment) page.pages = node.pages[0];
  for (int32_t pool = 0; pool < n_pools_; ++pool)
    page.present.push_back(node.pages[static_cast<size_t>(pool) + 1] != 0);
  if (node.state != PrefixTree::kNoState) page.state = node.state;
  page.goes_on = !node.children.empty();
  return page;
}

std::vector<IndexedPage> Index::match(std::span<const int32_t> tokens) const {
  std::vector<IndexedPage> pages;
  NodeId node = PrefixTree::kRoot;
  int64_t n_tokens = 0;
  while (const auto child = tree_.find_similar_child(node, tokens)) {
    const int64_t n_alike = child->second;
    if (n_alike < std::ssize(tree_.node(child->first).tokens)) break;
    node = child->first;
    n_tokens += n_alike;
    pages.push_back(describe(node));
    pages.back().n_tokens = n_tokens;
    if (n_alike < tensor::kPageTokens) break;
    tokens = tokens.subspan(kPage);
  }
  return pages;
}

}  // namespace tempo9::kv::disk
