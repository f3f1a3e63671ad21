// Where a prompt leaves what is kept, and why.
#include "kv/cache_impl.h"

namespace tempo9::kv {

using tensor::kPageTokens;
using NodeId = PrefixTree::NodeId;

namespace {

// So many tokens behind a difference are looked at, and so few say nothing.
constexpr int64_t kMostCompared = 256;
constexpr int64_t kLeastCompared = 16;

// Whether the kept text that goes on with `node`, of which the first `n_alike` tokens are alike, is mostly `rest` again
// after the token that differs. `rest` begins with that token.
bool is_alike_again(const PrefixTree& tree, NodeId node, size_t n_alike, std::span<const int32_t> rest) {
  int64_t n_compared = -1;  // the first one differs
  int64_t n_equal = 0;
  while (!rest.empty() && n_compared < kMostCompared) {
    const auto page = std::span(tree.node(node).tokens).subspan(n_alike);
    for (size_t i = 0; i < std::min(page.size(), rest.size()); ++i) {
      ++n_compared;
      n_equal += page[i] == rest[i] ? 1 : 0;
    }
    rest = rest.subspan(std::min(page.size(), rest.size()));
    if (tree.node(node).children.empty()) break;
    node = tree.node(node).children.front();
    n_alike = 0;
  }
  return n_compared >= kLeastCompared && 2 * n_equal > n_compared;
}

}  // namespace

Difference Cache::explain(std::span<const int32_t> tokens) const {
  constexpr auto kPage = static_cast<size_t>(kPageTokens);
  Difference found;
  NodeId node = PrefixTree::kRoot;
  auto rest = tokens;
  while (const auto child = impl_->tree.find_similar_child(node, rest)) {
    const std::vector<int32_t>& page = impl_->tree.node(child->first).tokens;
    const auto n_alike = static_cast<size_t>(child->second);
    node = child->first;
    found.n_common += child->second;
    rest = rest.subspan(n_alike);
    if (n_alike == kPage) continue;
    if (n_alike < page.size()) {
      found.stored = page[n_alike];
      found.resumes = is_alike_again(impl_->tree, node, n_alike, rest);
    }
    break;
  }
  const std::vector<NodeId>& children = impl_->tree.node(node).children;
  if (!found.stored && !children.empty()) {
    found.stored = impl_->tree.node(children.front()).tokens.front();
    found.resumes = is_alike_again(impl_->tree, children.front(), 0, rest);
  }
  bool goes_on = found.stored.has_value();
  if (impl_->store) {
    const auto on_disk = impl_->store->index().match(tokens);
    if (!on_disk.empty() && on_disk.back().n_tokens > found.n_common) {
      found.n_common = on_disk.back().n_tokens;
      found.stored.reset();
      found.resumes = false;
      goes_on = on_disk.back().goes_on;
    }
  }
  if (found.n_common == std::ssize(tokens)) return found;
  const auto n_common = static_cast<size_t>(found.n_common);
  found.given = tokens[n_common];
  if (impl_->evicted.contains(tokens.first(std::min((n_common / kPage + 1) * kPage, tokens.size())))) {
    found.reason = Difference::Reason::kEvicted;
  } else if (found.n_common == 0) {
    found.reason = Difference::Reason::kNothingAlike;
  } else {
    found.reason = goes_on ? Difference::Reason::kDiffers : Difference::Reason::kStoredEnds;
  }
  return found;
}

}  // namespace tempo9::kv
