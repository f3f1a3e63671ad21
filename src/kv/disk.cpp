// What is kept for sequences to come, on disk: writing it when a sequence ends, and taking it in again.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/check.h"
#include "kv/cache_impl.h"
#include "kv/code_digest.h"

namespace tempo9::kv {

using tensor::kNoPage;
using tensor::kPageTokens;
using NodeId = PrefixTree::NodeId;

namespace {

constexpr auto kPage = static_cast<size_t>(kPageTokens);

// Fewer tokens are computed before they are read.
constexpr int64_t kMinGain = kPageTokens;

// Everything that the meaning of a page's bytes depends on and that the model's identity does not say.
std::string describe(const disk::Options& options, std::string_view backend, tensor::KvType type,
                     std::span<const tensor::KvLayerSpec> specs, const disk::Geometry& geometry) {
  std::string text = fmt::format("{}\ncode {}\nbackend {} type {} page {} state {}\n", options.identity, kCodeDigest,
                                 backend, static_cast<int>(type), kPageTokens, geometry.state_bytes);
  for (size_t l = 0; l < specs.size(); ++l) {
    text += fmt::format("layer {} {} {} window {} bytes {} {}\n", specs[l].n_kv_heads, specs[l].k_head_dim,
                        specs[l].v_head_dim, specs[l].window, geometry.layers[l].k, geometry.layers[l].v);
  }
  return text;
}

}  // namespace

void Cache::Impl::open_disk(std::string_view backend, std::span<const tensor::KvLayerSpec> specs) {
  disk::Geometry geometry{
      .layers = {}, .n_pools = static_cast<int32_t>(pools.size()), .state_bytes = state_pool.used_bytes()};
  for (const tensor::KvLayerView& layer : layers) {
    geometry.layers.push_back({.k = layer.k_page_bytes, .v = layer.v_page_bytes, .pool = layer.pool});
  }
  const std::string text = describe(options.disk, backend, options.type, specs, geometry);
  store = std::make_unique<disk::Store>(options.disk, disk::hash_config(text), geometry);
}

// ---- writing

void Cache::Impl::start_write(disk::Write write, Spill spill, uint64_t& previous) {
  if (previous != 0) write.path.clear();
  write.after = previous;
  const auto id = store->write(std::move(write));
  if (!id) return;
  previous = *id;
  spill.id = *id;
  for (const NodeId node : spill.pages) tree.node(node).pages_write = *id;
  if (spill.state_of != PrefixTree::kRoot) tree.node(spill.state_of).state_write = *id;
  spills.push_back(std::move(spill));
}

// The pages [begin, end) of the path, in segments of bounded size.
void Cache::Impl::spill_pages(std::span<const NodeId> path, std::span<const int32_t> tokens, size_t begin, size_t end,
                              disk::Write write, uint64_t& previous) {
  const size_t page_bytes = std::max<size_t>(store->geometry().page_bytes(), 1);
  const size_t most = std::max<size_t>(1, options.disk.max_segment_bytes / page_bytes);
  for (; begin < end; begin += most) {
    const auto nodes = path.subspan(begin, std::min(most, end - begin));
    disk::Write part = write;
    const auto text = tokens.first(std::min((begin + nodes.size()) * kPage, tokens.size()));
    part.head = {.tokens = {text.begin(), text.end()}, .first_page = static_cast<int64_t>(begin), .present = {}};
    for (const NodeId node : nodes) {
      for (const int32_t page : tree.node(node).pages) part.head.present.push_back(page != kNoPage);
    }
    for (const tensor::KvLayerView& layer : layers) {
      for (const NodeId node : nodes) {
        const int32_t page = tree.node(node).pages[static_cast<size_t>(layer.pool)];
        if (page == kNoPage) continue;
        part.parts.emplace_back(layer.k + static_cast<size_t>(page) * layer.k_page_bytes, layer.k_page_bytes);
        part.parts.emplace_back(layer.v + static_cast<size_t>(page) * layer.v_page_bytes, layer.v_page_bytes);
      }
    }
    start_write(std::move(part), {.pages = {nodes.begin(), nodes.end()}}, previous);
  }
}

void Cache::Impl::spill_state(NodeId node, std::span<const int32_t> tokens, disk::Write write, uint64_t& previous) {
  write.head = {.tokens = {tokens.begin(), tokens.end()}, .has_state = true, .present = {}};
  write.parts = {state_pool.bytes(tree.node(node).state)};
  start_write(std::move(write), {.pages = {}, .state_of = node}, previous);
}

std::vector<NodeId> Cache::Impl::path_to(NodeId last) const {
  std::vector<NodeId> path;
  for (NodeId id = last; id != PrefixTree::kRoot; id = tree.node(id).parent) path.push_back(id);
  std::ranges::reverse(path);
  return path;
}

std::vector<int32_t> Cache::Impl::text_of(std::span<const NodeId> path) const {
  std::vector<int32_t> tokens;
  for (const NodeId id : path) tokens.insert(tokens.end(), tree.node(id).tokens.begin(), tree.node(id).tokens.end());
  return tokens;
}

// Of the states that lie on the text: where others depart from it, the last two, and ever fewer before.
std::vector<size_t> Cache::Impl::states_to_spill(std::span<const NodeId> path,
                                                 std::span<const disk::IndexedPage> known) const {
  std::vector<size_t> with_state;
  for (size_t i = 0; i < path.size(); ++i) {
    if (tree.node(path[i]).state != PrefixTree::kNoState) with_state.push_back(i);
  }
  const size_t n_states = with_state.size();
  size_t n_seen = 0;
  std::erase_if(with_state, [&](size_t i) {
    ++n_seen;
    const PrefixTree::Node& node = tree.node(path[i]);
    const bool is_wanted = n_seen + 2 > n_states || node.children.size() > 1 || std::has_single_bit(n_seen);
    return !is_wanted || node.state_write != 0 || (i < known.size() && known[i].state);
  });
  return with_state;
}

void Cache::Impl::spill(NodeId last) {
  if (!store || last == PrefixTree::kRoot) return;
  const auto is_part = [&](NodeId id) { return tree.node(id).tokens.size() < kPage; };
  if (is_part(last) && tree.node(last).state == PrefixTree::kNoState) last = tree.node(last).parent;
  const std::vector<NodeId> path = path_to(last);
  const std::vector<int32_t> tokens = text_of(path);

  const std::vector<disk::IndexedPage> known = store->index().match(tokens);
  disk::Write write;  // what all of them begin with
  for (const disk::IndexedPage& page : known) {
    if (!page.pages) continue;
    const std::string& name = store->index().name(*page.pages);
    if (write.path.empty() || write.path.back() != name) write.path.push_back(name);
  }

  const std::vector<size_t> with_state = states_to_spill(path, known);
  uint64_t previous = 0;
  const auto is_written = [&](size_t i) {
    return tree.node(path[i]).pages_write != 0 || (i < known.size() && known[i].pages);
  };
  for (size_t begin = 0; begin < path.size();) {
    if (is_written(begin)) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < path.size() && !is_written(end)) ++end;
    const bool has_state = !with_state.empty() && with_state.back() >= begin;
    const bool is_small = (end - begin) * store->geometry().page_bytes() < options.disk.min_segment_bytes;
    if (end < path.size() || has_state || !is_small) spill_pages(path, tokens, begin, end, write, previous);
    begin = end;
  }
  for (const size_t i : with_state) {
    const auto text = std::span(tokens).first(std::min((i + 1) * kPage, tokens.size()));
    spill_state(path[i], text, write, previous);
  }
  if (previous == 0 && !write.path.empty()) store->touch(std::move(write.path));
}

void Cache::Impl::forget_write(uint64_t id) {
  const auto spill = std::ranges::find(spills, id, &Spill::id);
  if (spill == spills.end()) return;
  for (const NodeId node : spill->pages) tree.node(node).pages_write = 0;
  if (spill->state_of != PrefixTree::kRoot) tree.node(spill->state_of).state_write = 0;
  spills.erase(spill);
}

void Cache::Impl::stop_write(uint64_t id) {
  if (id == 0) return;
  store->cancel_write(id);
  forget_write(id);
}

// ---- reading

Cache::Impl::Known Cache::Impl::find_known(std::span<const int32_t> tokens) const {
  Known known;
  known.on_disk = store->index().match(tokens);
  NodeId node = PrefixTree::kRoot;
  while (tokens.size() >= kPage) {
    const auto child = tree.find_child(node, tokens.first(kPage));
    if (!child) break;
    node = *child;
    known.nodes.push_back(node);
    tokens = tokens.subspan(kPage);
  }
  return known;
}

size_t Cache::Impl::find_restorable(const Known& known, int64_t above) const {
  const auto is_on_disk = [&](size_t i) { return i < known.on_disk.size() && known.on_disk[i].pages; };
  const auto is_in_memory = [&](size_t i) { return i < known.nodes.size(); };
  const auto tokens_of = [&](size_t end) {
    return end > known.on_disk.size() ? static_cast<int64_t>(end * kPage) : known.on_disk[end - 1].n_tokens;
  };
  const auto is_present = [&](size_t i, size_t pool) {
    return (is_in_memory(i) && tree.node(known.nodes[i]).pages[pool] != kNoPage) ||
           (is_on_disk(i) && known.on_disk[i].present[pool]);
  };
  const auto is_usable = [&](size_t end) {
    for (size_t p = 0; p < pools.size(); ++p) {
      for (auto i = static_cast<size_t>(pools[p].first_visible_page(tokens_of(end))); i < end; ++i) {
        if (!is_present(i, p)) return false;
      }
    }
    if (state_pool.n_layers() == 0) return true;
    return (end <= known.on_disk.size() && known.on_disk[end - 1].state) ||
           (is_in_memory(end - 1) && tree.node(known.nodes[end - 1]).state != PrefixTree::kNoState);
  };
  size_t end = 0;
  while (is_in_memory(end) || is_on_disk(end)) ++end;
  while (end > 0 && tokens_of(end) > above && !is_usable(end)) --end;
  return end > 0 && tokens_of(end) > above ? end : 0;
}

void Cache::fetch(SequenceId id, std::span<const int32_t> tokens) {
  if (!impl_->store) return;
  const disk::Index& index = impl_->store->index();
  const Impl::Known known = impl_->find_known(tokens);
  const size_t n_pages = impl_->find_restorable(known, impl_->find(id).n_tokens + kMinGain - 1);
  std::vector<std::string> names;
  const auto want = [&](disk::SegmentId segment) {
    const std::string& name = index.name(segment);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (size_t i = 0; i < std::min(n_pages, known.on_disk.size()); ++i) {
    const disk::IndexedPage& page = known.on_disk[i];
    const bool is_whole =
        i < known.nodes.size() && std::ranges::find(impl_->tree.node(known.nodes[i]).pages, kNoPage) ==
                                      impl_->tree.node(known.nodes[i]).pages.end();
    if (page.pages && !is_whole) want(*page.pages);
    const bool is_end = i + 1 == n_pages;
    if (is_end && page.state && impl_->state_pool.n_layers() > 0) want(*page.state);
  }
  for (std::string& name : names) {
    const auto reading = std::ranges::find(impl_->fetches, name, &Impl::Fetch::name);
    if (reading != impl_->fetches.end()) {
      reading->waiters.push_back(id.value);
      continue;
    }
    impl_->fetches.push_back({.name = name, .waiters = {id.value}});
    impl_->store->read(std::move(name));
  }
}

bool Cache::is_fetching(SequenceId id) const {
  return std::ranges::any_of(impl_->fetches, [id](const Impl::Fetch& fetch) {
    return std::ranges::find(fetch.waiters, id.value) != fetch.waiters.end();
  });
}

// Makes a page of the segment one of the tree, the child of `node`, and `node` the child. False when no page is free.
bool Cache::Impl::take_in_page(const disk::Contents& contents, int64_t page, NodeId& node) {
  const disk::SegmentHead& head = contents.head;
  const disk::Geometry& geometry = store->geometry();
  const auto n_before = std::min(static_cast<size_t>(head.first_page + page) * kPage, head.tokens.size());
  const auto rest = std::span(head.tokens).subspan(n_before);
  const auto tokens = rest.first(std::min(kPage, rest.size()));
  const auto is_present = [&](size_t p) { return head.is_present(page, static_cast<int32_t>(p), geometry.n_pools); };
  make_room(1);
  for (size_t p = 0; p < pools.size(); ++p) {
    if (is_present(p) && pools[p].pages.n_free() == 0) return false;
  }
  auto child = tree.find_child(node, tokens);
  if (!child) {
    child = tree.add(node, tokens, std::vector<int32_t>(pools.size(), kNoPage));
    ++n_restored_pages;
  }
  tree.add_user(*child);
  if (node != PrefixTree::kRoot) tree.drop_user(node);
  node = *child;
  size_t offset = 0;
  std::vector<bool> is_new(pools.size());
  for (size_t p = 0; p < pools.size(); ++p) {
    int32_t& held = tree.node(node).pages[p];
    is_new[p] = is_present(p) && held == kNoPage;
    if (!is_new[p]) continue;
    held = pools[p].pages.take().page;  // every byte of it is written below
    pools[p].pages.hold(held);
    pools[p].pages.drop(held);
  }
  for (const tensor::KvLayerView& layer : layers) {
    const auto pool = static_cast<size_t>(layer.pool);
    const size_t bytes = layer.k_page_bytes + layer.v_page_bytes;
    for (int64_t i = 0; i < head.n_pages(); ++i) {
      if (!head.is_present(i, layer.pool, geometry.n_pools)) continue;
      if (i == page && is_new[pool]) {
        const auto held = static_cast<size_t>(tree.node(node).pages[pool]);
        const std::byte* const from = contents.payload.data() + offset;
        std::memcpy(layer.k + held * layer.k_page_bytes, from, layer.k_page_bytes);
        std::memcpy(layer.v + held * layer.v_page_bytes, from + layer.k_page_bytes, layer.v_page_bytes);
      }
      offset += bytes;
    }
  }
  return true;
}

void Cache::Impl::take_in_state(const disk::Contents& contents, NodeId node) {
  if (node == PrefixTree::kRoot || tree.node(node).state != PrefixTree::kNoState || options.max_kept_states == 0)
    return;
  make_room_for_state();
  const int32_t slot = state_pool.take();
  const auto to = state_pool.bytes(slot);
  std::memcpy(to.data(), contents.payload.last(to.size()).data(), to.size());
  tree.node(node).state = slot;
  ++n_kept_states;
}

// By the segment's own tokens: what asked for it does not matter. Without the text before it, it is of no use.
void Cache::Impl::take_in(const disk::Contents& contents) {
  const disk::SegmentHead& head = contents.head;
  NodeId node = PrefixTree::kRoot;
  const int64_t n_before = head.present.empty() ? std::ssize(head.tokens) : head.first_page * kPageTokens;
  for (auto rest = std::span(head.tokens).first(static_cast<size_t>(n_before)); !rest.empty();
       rest = rest.subspan(std::min(kPage, rest.size()))) {
    const auto child = tree.find_child(node, rest.first(std::min(kPage, rest.size())));
    if (!child) return;
    node = *child;
  }
  if (node != PrefixTree::kRoot) tree.add_user(node);  // it must not make room for what comes after it
  int64_t page = 0;
  while (page < head.n_pages() && take_in_page(contents, page, node)) ++page;
  if (head.has_state && page == head.n_pages()) take_in_state(contents, node);
  if (node != PrefixTree::kRoot) tree.drop_user(node);
  if (node != PrefixTree::kRoot) tree.touch(node);
  ++n_restored_spans;
  evict_surplus();
}

bool Cache::poll_disk() {
  if (!impl_->store) return false;
  bool found = false;
  while (auto done = impl_->store->take_done()) {
    found = true;
    if (const auto* written = std::get_if<disk::Written>(&*done)) {
      impl_->forget_write(written->id);
      continue;
    }
    const auto& read = std::get<disk::Read>(*done);
    std::erase_if(impl_->fetches, [&](const Impl::Fetch& fetch) { return fetch.name == read.name; });
    if (!read.contents) continue;
    impl_->take_in(*read.contents);
    break;
  }
  return found;
}

// Takes the end of the text out of memory, as far as it is on disk.
void Cache::Impl::release_text(NodeId last) {
  std::vector<NodeId> path = path_to(last);
  const auto known = store->index().match(text_of(path));
  // What was not worth writing does not keep all before it in memory.
  const size_t n_unsaved = path.size() - std::min(known.size(), path.size());
  if (n_unsaved > 1 && n_unsaved * store->geometry().page_bytes() >= options.disk.min_segment_bytes) return;
  for (; !path.empty(); path.pop_back()) {
    const PrefixTree::Node& node = tree.node(path.back());
    const bool is_used = node.n_users > 0 || !node.children.empty() || node.pages_write != 0 || node.state_write != 0;
    if (is_used || (path.size() <= known.size() && !known[path.size() - 1].pages)) return;
    let_go(tree.remove(path.back()));
  }
}

void Cache::release_restorable() {
  if (!impl_->store) return;
  std::vector<NodeId> leaves = impl_->tree.all();
  std::erase_if(leaves, [&](NodeId id) { return !impl_->tree.node(id).children.empty(); });
  for (const NodeId id : leaves) impl_->release_text(id);
  for (Pool& pool : impl_->pools) impl_->release_runs(pool, pool.pages.trim_all());
}

void Cache::notify_disk(std::function<void()> callback) {
  if (impl_->store) impl_->store->notify(std::move(callback));
}

void Cache::finish_writes(std::chrono::milliseconds limit) {
  if (impl_->store) impl_->store->finish_writes(limit);
}

void Cache::settle_disk() {
  if (!impl_->store) return;
  do {
    impl_->store->wait();
  } while (poll_disk());
}

std::optional<std::string> Cache::take_disk_problem() {
  return impl_->store ? impl_->store->take_problem() : std::nullopt;
}

}  // namespace tempo9::kv
