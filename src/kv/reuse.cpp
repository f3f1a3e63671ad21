// Pages and states that are kept for sequences to come: finding, sharing and evicting them.
#include <cstring>

#include "base/check.h"
#include "kv/cache_impl.h"

namespace tempo9::kv {

using tensor::kNoPage;
using tensor::kPageTokens;
using NodeId = PrefixTree::NodeId;

// ---- finding

// The longest match, usable or not.
Cache::Impl::Match Cache::Impl::find_match(const Sequence& sequence, std::span<const int32_t> tokens) const {
  Match match;
  NodeId node = sequence.node;
  auto rest = tokens.subspan(static_cast<size_t>(sequence.n_shared * kPageTokens));
  while (rest.size() >= static_cast<size_t>(kPageTokens)) {
    const auto child = tree.find_child(node, rest.first(static_cast<size_t>(kPageTokens)));
    if (!child) break;
    node = *child;
    match.full.push_back(node);
    rest = rest.subspan(static_cast<size_t>(kPageTokens));
  }
  match.n_tokens = (sequence.n_shared + std::ssize(match.full)) * kPageTokens;
  match.state_of = node;
  if (const auto similar = tree.find_similar_child(node, rest)) {
    match.part = similar->first;
    match.n_tokens += similar->second;
    match.state_of = similar->first;
  }
  return match;
}

// The match that ends with the first `n_full` of its full pages.
Cache::Impl::Match Cache::Impl::cut(const Sequence& sequence, const Match& match, int64_t n_full) {
  Match shorter;
  shorter.full.assign(match.full.begin(), match.full.begin() + n_full);
  shorter.n_tokens = (sequence.n_shared + n_full) * kPageTokens;
  shorter.state_of = n_full > 0 ? shorter.full.back() : PrefixTree::kRoot;
  return shorter;
}

bool Cache::Impl::is_usable(const Sequence& sequence, const Match& match) const {
  for (size_t p = 0; p < pools.size(); ++p) {
    const int64_t first = std::max(pools[p].first_visible_page(match.n_tokens) - sequence.n_shared, int64_t{0});
    for (int64_t i = first; i < std::ssize(match.full); ++i) {
      if (tree.node(match.full[static_cast<size_t>(i)]).pages[p] == kNoPage) return false;
    }
    const bool needs_copy = match.part != PrefixTree::kRoot;
    if (needs_copy && (tree.node(match.part).pages[p] == kNoPage || pools[p].pages.n_free() == 0)) return false;
  }
  if (state_pool.n_layers() == 0) return true;
  const PrefixTree::Node& end = tree.node(match.state_of);
  if (match.state_of == PrefixTree::kRoot || end.state == PrefixTree::kNoState) return false;
  return match.part == PrefixTree::kRoot || match.n_tokens % kPageTokens == std::ssize(end.tokens) % kPageTokens;
}

std::optional<Cache::Impl::Match> Cache::Impl::find_usable_match(const Sequence& sequence,
                                                                 std::span<const int32_t> tokens) const {
  Match match = find_match(sequence, tokens);
  if (match.n_tokens > sequence.n_tokens && is_usable(sequence, match)) return match;
  for (int64_t n_full = std::ssize(match.full); n_full > 0; --n_full) {
    Match shorter = cut(sequence, match, n_full);
    if (shorter.n_tokens <= sequence.n_tokens) break;
    if (is_usable(sequence, shorter)) return shorter;
  }
  return std::nullopt;
}

int64_t Cache::reuse(SequenceId id, std::span<const int32_t> tokens) {
  Sequence& sequence = impl_->find(id);
  if (impl_->options.max_kept_pages == 0) return sequence.n_tokens;
  impl_->make_room(1);  // for the copy of a page
  const auto match = impl_->find_usable_match(sequence, tokens);
  if (match) impl_->take_match(sequence, *match);
  return sequence.n_tokens;
}

// ---- sharing

void Cache::Impl::enter(Sequence& sequence, NodeId node) {
  if (node != PrefixTree::kRoot) tree.add_user(node);
  if (sequence.node != PrefixTree::kRoot) tree.drop_user(sequence.node);
  sequence.node = node;
}

void Cache::Impl::copy_page(Pool& pool, int32_t from, int32_t to) {
  for (const size_t layer : pool.layers) {
    const tensor::KvLayerView& view = layers[layer];
    const auto copy = [&](std::byte* base, size_t bytes) {
      std::memcpy(base + static_cast<size_t>(to) * bytes, base + static_cast<size_t>(from) * bytes, bytes);
    };
    copy(view.k, view.k_page_bytes);
    copy(view.v, view.v_page_bytes);
  }
}

// What the sequence holds beyond its shared pages gives way.
void Cache::Impl::take_match(Sequence& sequence, const Match& match) {
  for (size_t p = 0; p < pools.size(); ++p) {
    Pool& pool = pools[p];
    Table& table = sequence.tables[p];
    for (; std::ssize(table.pages) > sequence.n_shared; table.pages.pop_back()) {
      if (table.pages.back() != kNoPage) pool.pages.drop(table.pages.back());
    }
    const int64_t first = pool.first_visible_page(match.n_tokens);
    for (const NodeId full : match.full) {
      const bool is_visible = std::ssize(table.pages) >= first;
      table.pages.push_back(is_visible ? tree.node(full).pages[p] : kNoPage);
      if (is_visible) pool.pages.share(table.pages.back());
    }
    drop_pages(pool, table, std::min(first, std::ssize(table.pages)));
    if (match.part != PrefixTree::kRoot) {
      append_page(pool, table);
      copy_page(pool, tree.node(match.part).pages[p], table.pages.back());
    }
  }
  if (state_pool.n_layers() > 0) state_pool.copy(tree.node(match.state_of).state, sequence.state);
  tree.touch(match.part != PrefixTree::kRoot ? match.part : match.full.back());
  if (!match.full.empty()) enter(sequence, match.full.back());
  sequence.n_shared += std::ssize(match.full);
  sequence.n_pages = pages_for(match.n_tokens);
  sequence.n_tokens = match.n_tokens;
}

// One copy of a page that two sequences have computed will do: both hold the same bits.
void Cache::Impl::merge_page(Sequence& sequence, NodeId id) {
  PrefixTree::Node& node = tree.node(id);
  for (size_t p = 0; p < pools.size(); ++p) {
    int32_t& own = sequence.tables[p].pages[static_cast<size_t>(sequence.n_shared)];
    if (own == kNoPage || own == node.pages[p]) continue;
    if (node.pages[p] == kNoPage) {
      node.pages[p] = own;
      pools[p].pages.hold(own);
    } else {
      pools[p].pages.share(node.pages[p]);
      pools[p].pages.drop(std::exchange(own, node.pages[p]));
    }
  }
}

// Makes the sequence's first unshared page, which holds these tokens, a page of the tree.
NodeId Cache::Impl::add_page(Sequence& sequence, std::span<const int32_t> tokens) {
  if (const auto existing = tree.find_child(sequence.node, tokens)) {
    merge_page(sequence, *existing);
    return *existing;
  }
  if (const auto similar = tree.find_similar_child(sequence.node, tokens)) {
    // A shorter text that ended inside this page has nothing to give any more.
    const PrefixTree::Node& node = tree.node(similar->first);
    const bool is_covered = similar->second == std::ssize(node.tokens) && node.state == PrefixTree::kNoState;
    if (is_covered && node.n_users == 0) {
      stop_write(node.pages_write);
      let_go(tree.remove(similar->first));
    }
  }
  std::vector<int32_t> pages;
  for (size_t p = 0; p < pools.size(); ++p) {
    pages.push_back(sequence.tables[p].pages[static_cast<size_t>(sequence.n_shared)]);
    if (pages.back() != kNoPage) pools[p].pages.hold(pages.back());
  }
  return tree.add(sequence.node, tokens, std::move(pages));
}

void Cache::publish(SequenceId id, std::span<const int32_t> tokens) {
  if (impl_->options.max_kept_pages == 0) return;
  Sequence& sequence = impl_->find(id);
  constexpr auto kPage = static_cast<size_t>(kPageTokens);
  while (static_cast<size_t>(sequence.n_shared + 1) * kPage <= tokens.size()) {
    const auto page = tokens.subspan(static_cast<size_t>(sequence.n_shared) * kPage, kPage);
    impl_->enter(sequence, impl_->add_page(sequence, page));
    ++sequence.n_shared;
  }
  impl_->evict_surplus();
}

// `tokens`: the first ones of a page; with none, the page before is the last. Gives the node at which they end, kRoot
// if there is none.
NodeId Cache::Impl::keep_last_page(Sequence& sequence, std::span<const int32_t> tokens) {
  if (tokens.empty()) return sequence.node;
  const auto similar = tree.find_similar_child(sequence.node, tokens);
  const bool is_covered = similar && similar->second == std::ssize(tokens);
  if (!is_covered) return add_page(sequence, tokens);
  return std::ssize(tree.node(similar->first).tokens) == std::ssize(tokens) ? similar->first : PrefixTree::kRoot;
}

void Cache::remove_and_keep(SequenceId id, std::span<const int32_t> tokens) {
  Sequence& sequence = impl_->find(id);
  if (sequence.is_on_trial) end_trial(id, /*keeps_all=*/false);  // the pass failed
  if (impl_->options.max_kept_pages > 0) {
    publish(id, tokens);
    const auto rest = tokens.subspan(static_cast<size_t>(sequence.n_shared * kPageTokens));
    const NodeId last = impl_->keep_last_page(sequence, rest);
    impl_->keep_state(sequence, last);
    impl_->spill(last != PrefixTree::kRoot ? last : sequence.node);
  }
  impl_->remove(sequence);
  impl_->evict_surplus();
}

// ---- states

void Cache::keep_state(SequenceId id) {
  Sequence& sequence = impl_->find(id);
  impl_->keep_state(sequence, sequence.node);
}

void Cache::Impl::keep_state(const Sequence& sequence, NodeId node) {
  if (options.max_kept_states == 0 || state_pool.n_layers() == 0) return;
  if (node == PrefixTree::kRoot || tree.node(node).state != PrefixTree::kNoState) return;
  make_room_for_state();
  const int32_t slot = state_pool.take();
  state_pool.copy(sequence.state, slot);
  tree.node(node).state = slot;
  ++n_kept_states;
}

// The copy used longest ago gives way; among those of one text the one nearest to its beginning.
void Cache::Impl::make_room_for_state() {
  if (n_kept_states < options.max_kept_states) return;
  NodeId oldest = PrefixTree::kRoot;
  for (const NodeId id : tree.all()) {
    if (tree.node(id).state == PrefixTree::kNoState) continue;
    if (oldest == PrefixTree::kRoot || tree.node(id).last_use < tree.node(oldest).last_use) oldest = id;
  }
  T9_CHECK(oldest != PrefixTree::kRoot);
  stop_write(tree.node(oldest).state_write);
  state_pool.drop(std::exchange(tree.node(oldest).state, PrefixTree::kNoState));
  --n_kept_states;
}

// ---- evicting

void Cache::Impl::let_go(const PrefixTree::Node& node) {
  for (size_t p = 0; p < pools.size(); ++p) {
    if (node.pages[p] != kNoPage) pools[p].pages.let_go(node.pages[p]);
    give_memory_back(pools[p]);
  }
  if (node.state == PrefixTree::kNoState) return;
  state_pool.drop(node.state);
  --n_kept_states;
}

bool Cache::Impl::evict_oldest() {
  const auto oldest = tree.oldest();
  if (!oldest) return false;
  evicted.add(text_of(path_to(*oldest)));
  stop_write(tree.node(*oldest).pages_write);
  stop_write(tree.node(*oldest).state_write);
  let_go(tree.remove(*oldest));
  ++n_evictions;
  return true;
}

// Of sliding layers: a page behind the windows of all sequences that share the text.
bool Cache::Impl::evict_hidden_page(size_t pool) {
  for (const NodeId id : tree.all()) {
    int32_t& page = tree.node(id).pages[pool];
    if (page == kNoPage || !pools[pool].pages.is_idle(page)) continue;
    stop_write(tree.node(id).pages_write);
    pools[pool].pages.let_go(std::exchange(page, kNoPage));
    ++n_evictions;
    return true;
  }
  return false;
}

void Cache::Impl::evict_surplus() {
  while (tree.n_nodes() > options.max_kept_pages && evict_oldest()) {
  }
}

void Cache::Impl::make_room(int64_t n) {
  for (size_t p = 0; p < pools.size(); ++p) {
    while (pools[p].pages.n_free() < n && (evict_oldest() || evict_hidden_page(p))) {
    }
  }
}

}  // namespace tempo9::kv
