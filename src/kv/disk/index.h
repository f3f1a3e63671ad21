// Which texts' pages and states lie on disk, and in which segment. Matched by tokens, never by a hash. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kv/disk/segment.h"
#include "kv/prefix_tree.h"

namespace tempo9::kv::disk {

using SegmentId = int32_t;

// A page of a text as the index knows it.
struct IndexedPage {
  int64_t n_tokens = 0;            // from the text's beginning to the page's end
  std::optional<SegmentId> pages;  // segment with the page's K and V
  std::vector<bool> present;       // of them, by pool
  bool goes_on = false;            // there are texts that go on after the page
  std::optional<SegmentId> state;  // segment with the recurrent state after the page's last token
};

class Index {
 public:
  explicit Index(int32_t n_pools) : n_pools_(n_pools) {}

  // Nothing when all that the segment holds is indexed already.
  std::optional<SegmentId> add(std::string name, const SegmentHead& head);
  void remove(SegmentId id);
  std::optional<SegmentId> find(const std::string& name) const;
  const std::string& name(SegmentId id) const { return segments_[static_cast<size_t>(id)].name; }
  int64_t n_segments() const { return n_segments_; }
  int64_t n_pages() const { return tree_.n_nodes(); }

  // The pages that `tokens` begin with, from the first on; the last may be part of a page. A page may be one of which
  // nothing is known but its place.
  std::vector<IndexedPage> match(std::span<const int32_t> tokens) const;

 private:
  struct Segment {
    std::string name;  // empty: not in use
    std::vector<PrefixTree::NodeId> nodes;
    PrefixTree::NodeId state_of = PrefixTree::kRoot;
  };

  PrefixTree::NodeId path_to(std::span<const int32_t> tokens, std::vector<PrefixTree::NodeId>& path);
  void prune(PrefixTree::NodeId id);
  IndexedPage describe(PrefixTree::NodeId id) const;

  int32_t n_pools_;
  // Node::pages: the segment with the page or -1, then 1 for each pool in which it is present. Node::state: a segment.
  PrefixTree tree_;
  std::vector<Segment> segments_;
  std::vector<SegmentId> free_;
  int64_t n_segments_ = 0;
};

}  // namespace tempo9::kv::disk
