// Where a prompt leaves what is kept, and why.
#include "kv/cache_impl.h"

namespace tempo9::kv {

using tensor::kPageTokens;
using NodeId = PrefixTree::NodeId;

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
    if (n_alike < page.size()) found.stored = page[n_alike];
    break;
  }
  const std::vector<NodeId>& children = impl_->tree.node(node).children;
  if (!found.stored && !children.empty()) found.stored = impl_->tree.node(children.front()).tokens.front();
  bool goes_on = found.stored.has_value();
  if (impl_->store) {
    const auto on_disk = impl_->store->index().match(tokens);
    if (!on_disk.empty() && on_disk.back().n_tokens > found.n_common) {
      found.n_common = on_disk.back().n_tokens;
      found.stored.reset();
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
