#include "kv/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "kv/cache_impl.h"

namespace tempo9::kv {
namespace {

using tensor::kNoPage;
using tensor::kPageTokens;

// Handles are an index in the low bits and a generation above, so that a handle of an ended sequence is noticed.
constexpr int32_t kIndexBits = 16;
constexpr int32_t kMaxGeneration = (1 << (31 - kIndexBits)) - 1;

SequenceId make_id(size_t index, int32_t generation) {
  return {(generation << kIndexBits) | static_cast<int32_t>(index)};
}

Result<size_t> multiply(int64_t n_pages, size_t bytes) {
  size_t product = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(n_pages), bytes, &product)) {
    return fail(ErrorCode::kOutOfCapacity, fmt::format("KV cache: {} pages of {} bytes overflow", n_pages, bytes));
  }
  return product;
}

}  // namespace

Pool& Cache::Impl::pool_of(int64_t window, int32_t& index) {
  auto found = std::find_if(pools.begin(), pools.end(), [&](const Pool& pool) { return pool.window == window; });
  index = static_cast<int32_t>(found - pools.begin());
  if (found != pools.end()) return *found;
  pools.push_back({.window = window, .layers = {}, .bytes_per_page = 0, .pages = PagePool(n_pages)});
  return pools.back();
}

Result<void> Cache::Impl::add_layer(backends::Backend& backend, const tensor::KvLayerSpec& spec, tensor::KvType type) {
  const backends::KvPageBytes bytes = backend.kv_page_bytes(spec, type);
  T9_TRY(k_bytes, multiply(n_pages, bytes.k));
  T9_TRY(v_bytes, multiply(n_pages, bytes.v));
  T9_TRY(k, backend.reserve(k_bytes));
  T9_TRY(v, backend.reserve(v_bytes));
  reserved_bytes += k_bytes + v_bytes;
  tensor::KvLayerView view{
      .k = k.data(), .v = v.data(), .k_page_bytes = bytes.k, .v_page_bytes = bytes.v, .type = type};
  Pool& pool = pool_of(spec.window, view.pool);
  pool.layers.push_back(layers.size());
  pool.bytes_per_page += bytes.k + bytes.v;
  layers.push_back(view);
  memory.push_back({std::move(k), std::move(v)});
  return {};
}

Sequence& Cache::Impl::find(SequenceId id) {
  const size_t index = static_cast<size_t>(id.value & ((1 << kIndexBits) - 1));
  T9_CHECK_MSG(id.value >= 0 && index < sequences.size(), fmt::format("sequence handle {}", id.value));
  Sequence& sequence = sequences[index];
  T9_CHECK_MSG(sequence.alive && id == make_id(index, sequence.generation),
               fmt::format("sequence handle {} is stale", id.value));
  return sequence;
}

void Cache::Impl::append_page(Pool& pool, Table& table) {
  const TakenPage taken = pool.pages.take();
  table.pages.push_back(taken.page);
  if (taken.clean) return;
  for (const size_t layer : pool.layers) {
    const tensor::KvLayerView& view = layers[layer];
    const size_t page = static_cast<size_t>(taken.page);
    std::memset(view.k + page * view.k_page_bytes, 0, view.k_page_bytes);
    std::memset(view.v + page * view.v_page_bytes, 0, view.v_page_bytes);
  }
}

// Drops the pages below index `end`.
void Cache::Impl::drop_pages(Pool& pool, Table& table, int64_t end) {
  for (; table.first < end; ++table.first) {
    int32_t& page = table.pages[static_cast<size_t>(table.first)];
    if (page != kNoPage) pool.pages.drop(page);
    page = kNoPage;
  }
}

void Cache::Impl::give_memory_back(Pool& pool) { release_runs(pool, pool.pages.trim()); }

void Cache::Impl::release_runs(Pool& pool, std::span<const PageRun> runs) {
  for (const PageRun run : runs) {
    const size_t begin = static_cast<size_t>(run.begin);
    const size_t n = static_cast<size_t>(run.end - run.begin);
    for (const size_t layer : pool.layers) {
      const tensor::KvLayerView& view = layers[layer];
      memory[layer].k.release(begin * view.k_page_bytes, n * view.k_page_bytes);
      memory[layer].v.release(begin * view.v_page_bytes, n * view.v_page_bytes);
    }
  }
}

Result<std::unique_ptr<Cache>> Cache::create(backends::Backend& backend, std::span<const tensor::KvLayerSpec> layers,
                                             std::span<const tensor::StateLayerSpec> state_layers,
                                             const CacheOptions& options) {
  if (options.max_tokens <= 0 || options.max_sequences <= 0 || options.max_sequences > (1 << kIndexBits) ||
      options.max_tokens > std::numeric_limits<int32_t>::max() * kPageTokens) {
    return fail(ErrorCode::kInvalidInput, fmt::format("KV cache: {} tokens in {} sequences is out of range",
                                                      options.max_tokens, options.max_sequences));
  }
  if (std::ranges::find(backend.kv_types(), options.type) == backend.kv_types().end()) {
    return fail(ErrorCode::kUnsupported, fmt::format("backend {} does not have this KV cache type", backend.name()));
  }
  std::unique_ptr<Cache> cache(new Cache);
  cache->impl_ = std::make_unique<Impl>();
  cache->impl_->n_pages = pages_for(options.max_tokens);
  cache->impl_->options = options;
  cache->impl_->sequences.resize(static_cast<size_t>(options.max_sequences));
  for (const tensor::KvLayerSpec& layer : layers) {
    T9_TRY_VOID(cache->impl_->add_layer(backend, layer, options.type));
  }
  T9_TRY(state_pool, StatePool::create(backend, state_layers,
                                       options.max_sequences + options.max_kept_states + options.max_trials));
  cache->impl_->state_pool = std::move(state_pool);
  if (!options.disk.root.empty() && options.max_kept_pages > 0) cache->impl_->open_disk(backend.name(), layers);
  return cache;
}

Cache::~Cache() = default;

Result<SequenceId> Cache::add_sequence() {
  std::vector<Sequence>& sequences = impl_->sequences;
  const auto free = std::ranges::find(sequences, false, &Sequence::alive);
  if (free == sequences.end()) {
    return fail(ErrorCode::kOutOfCapacity, fmt::format("KV cache: all {} sequences are in use", sequences.size()));
  }
  free->alive = true;
  free->tables.resize(impl_->pools.size());
  free->state = impl_->state_pool.take();
  return make_id(static_cast<size_t>(free - sequences.begin()), free->generation);
}

void Cache::remove_sequence(SequenceId id) { impl_->remove(impl_->find(id)); }

void Cache::Impl::remove(Sequence& sequence) {
  for (size_t p = 0; p < pools.size(); ++p) {
    drop_pages(pools[p], sequence.tables[p], sequence.n_pages);
    give_memory_back(pools[p]);
  }
  if (sequence.node != PrefixTree::kRoot) tree.drop_user(sequence.node);
  state_pool.drop(sequence.state);
  if (sequence.other_state != PrefixTree::kNoState) state_pool.drop(sequence.other_state);
  sequence = {
      .alive = false, .generation = sequence.generation == kMaxGeneration ? 0 : sequence.generation + 1, .tables = {}};
}

Result<void> Cache::grow(SequenceId id, int64_t n_tokens) {
  Sequence& sequence = impl_->find(id);
  const int64_t n_new = pages_for(n_tokens) - sequence.n_pages;
  if (n_new <= 0) return {};
  for (const Pool& pool : impl_->pools) {
    if (pool.n_available() < n_new) {
      return fail(ErrorCode::kOutOfCapacity,
                  fmt::format("KV cache: {} pages are needed, {} are free", n_new, pool.n_available()));
    }
  }
  impl_->make_room(n_new);
  for (size_t p = 0; p < impl_->pools.size(); ++p) {
    for (int64_t i = 0; i < n_new; ++i) impl_->append_page(impl_->pools[p], sequence.tables[p]);
  }
  sequence.n_pages += n_new;
  return {};
}

int64_t Cache::n_slots(SequenceId id) const { return impl_->find(id).n_pages * kPageTokens; }

void Cache::set_length(SequenceId id, int64_t n_tokens) {
  Sequence& sequence = impl_->find(id);
  T9_CHECK_MSG(n_tokens >= sequence.n_tokens && n_tokens <= sequence.n_pages * kPageTokens,
               fmt::format("length {} after {}, {} pages", n_tokens, sequence.n_tokens, sequence.n_pages));
  sequence.n_tokens = n_tokens;
  for (size_t p = 0; p < impl_->pools.size(); ++p) {
    Pool& pool = impl_->pools[p];
    const int64_t first = std::min(pool.first_visible_page(n_tokens), sequence.n_pages);
    if (first <= sequence.tables[p].first) continue;
    impl_->drop_pages(pool, sequence.tables[p], first);
    impl_->give_memory_back(pool);
  }
}

void Cache::truncate(SequenceId id, int64_t n_tokens) {
  Sequence& sequence = impl_->find(id);
  T9_CHECK_MSG(n_tokens >= sequence.n_tokens, fmt::format("{} tokens of {} are to stay", n_tokens, sequence.n_tokens));
  const int64_t n_pages = pages_for(n_tokens);
  if (n_pages >= sequence.n_pages) return;
  for (size_t p = 0; p < impl_->pools.size(); ++p) {
    std::vector<int32_t>& pages = sequence.tables[p].pages;
    for (; std::ssize(pages) > n_pages; pages.pop_back()) {
      if (pages.back() != kNoPage) impl_->pools[p].pages.drop(pages.back());
    }
    impl_->give_memory_back(impl_->pools[p]);
  }
  sequence.n_pages = n_pages;
}

bool Cache::has_room(int64_t n_tokens) const {
  return std::ranges::all_of(impl_->pools, [&](const Pool& pool) { return pool.n_available() >= pages_for(n_tokens); });
}

tensor::KvView Cache::view(std::span<const SequenceId> ids) {
  impl_->tables.resize(impl_->pools.size() * ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const Sequence& sequence = impl_->find(ids[i]);
    for (size_t p = 0; p < impl_->pools.size(); ++p) {
      impl_->tables[p * ids.size() + i].pages = sequence.tables[p].pages;
    }
  }
  return {.layers = impl_->layers, .tables = impl_->tables, .n_sequences = static_cast<int32_t>(ids.size())};
}

tensor::StateView Cache::states(std::span<const SequenceId> ids) {
  StatePool& pool = impl_->state_pool;
  impl_->states.resize(pool.n_layers() * ids.size());
  impl_->states_before.assign(impl_->states.size(), nullptr);
  bool has_trials = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    const Sequence& sequence = impl_->find(ids[i]);
    has_trials |= sequence.is_on_trial;
    for (size_t l = 0; l < pool.n_layers(); ++l) {
      const size_t index = l * ids.size() + i;
      impl_->states[index] = pool.layer(sequence.state, l);
      if (sequence.is_on_trial) impl_->states_before[index] = pool.layer(sequence.other_state, l);
    }
  }
  tensor::StateView view{.states = impl_->states, .n_sequences = static_cast<int32_t>(ids.size())};
  if (has_trials) view.before = impl_->states_before;
  return view;
}

void Cache::begin_trial(SequenceId id) {
  Sequence& sequence = impl_->find(id);
  T9_CHECK(!sequence.is_on_trial);
  if (impl_->state_pool.n_layers() == 0) return;
  if (sequence.other_state == PrefixTree::kNoState) sequence.other_state = impl_->state_pool.take();
  std::swap(sequence.state, sequence.other_state);
  sequence.is_on_trial = true;
}

void Cache::end_trial(SequenceId id, bool keeps_all) {
  Sequence& sequence = impl_->find(id);
  if (!sequence.is_on_trial) return;
  if (!keeps_all) std::swap(sequence.state, sequence.other_state);
  sequence.is_on_trial = false;
}

CacheStats Cache::stats() const {
  CacheStats stats{.pages_total = impl_->n_pages, .reserved_bytes = impl_->reserved_bytes};
  stats.state_bytes = impl_->state_pool.slot_bytes();
  stats.states_used = impl_->state_pool.n_used() - impl_->n_kept_states;
  stats.states_kept = impl_->n_kept_states;
  stats.pages_kept = impl_->tree.n_nodes();
  stats.has_disk = impl_->store != nullptr;
  if (impl_->store) stats.disk = impl_->store->stats();
  stats.restored_pages = impl_->n_restored_pages;
  stats.restored_spans = impl_->n_restored_spans;
  stats.evictions = impl_->n_evictions;
  for (const Pool& pool : impl_->pools) {
    stats.pages_used = std::max(stats.pages_used, pool.pages.n_used() - pool.pages.n_idle());
    stats.bytes_per_page += pool.bytes_per_page;
    stats.resident_bytes += static_cast<size_t>(pool.pages.n_resident()) * pool.bytes_per_page;
  }
  return stats;
}

}  // namespace tempo9::kv
