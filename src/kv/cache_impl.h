// What a Cache is made of. For cache.cpp (pages of sequences) and reuse.cpp (pages kept for others).
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "kv/cache.h"
#include "kv/evicted.h"
#include "kv/page_pool.h"
#include "kv/prefix_tree.h"
#include "kv/state_pool.h"

namespace tempo9::kv {

inline int64_t pages_for(int64_t n_tokens) { return (n_tokens + tensor::kPageTokens - 1) / tensor::kPageTokens; }

// Pages whose eviction is remembered: some 2 million tokens, for 3 MiB.
inline constexpr size_t kRememberedEvictions = size_t{1} << 16;

struct LayerMemory {
  Buffer k;
  Buffer v;
};

// Layers that keep the same tokens.
struct Pool {
  int64_t window = 0;  // 0: every token
  std::vector<size_t> layers;
  size_t bytes_per_page = 0;
  PagePool pages{0};

  // Pages that are free, or become so by evicting.
  int64_t n_available() const { return pages.n_free() + pages.n_idle(); }

  // Index of the first page that the row at slot `n_tokens`, or a later one, can see: it sees j > n_tokens - window.
  int64_t first_visible_page(int64_t n_tokens) const {
    return window > 0 ? std::max<int64_t>(0, n_tokens - window + 1) / tensor::kPageTokens : 0;
  }
};

// One sequence's page table in one pool. Entries below `first` are kNoPage.
struct Table {
  std::vector<int32_t> pages;
  int64_t first = 0;
};

struct Sequence {
  bool alive = false;
  int32_t generation = 0;
  int64_t n_tokens = 0;
  int64_t n_pages = 0;        // length of each table
  std::vector<Table> tables;  // one per pool
  int32_t state = PrefixTree::kNoState;
  int32_t other_state =
      PrefixTree::kNoState;  // on trial that before it, else of no meaning; taken with the first trial
  bool is_on_trial = false;

  // Its first n_shared pages are those of the path to `node`, of which it is a user; they are full.
  PrefixTree::NodeId node = PrefixTree::kRoot;
  int64_t n_shared = 0;
};

struct Cache::Impl {
  CacheOptions options;
  std::vector<Pool> pools;
  std::vector<LayerMemory> memory;
  std::vector<tensor::KvLayerView> layers;
  std::vector<Sequence> sequences;
  int64_t n_pages = 0;  // of each pool
  size_t reserved_bytes = 0;
  StatePool state_pool;

  PrefixTree tree;
  int64_t n_kept_states = 0;
  uint64_t n_evictions = 0;
  EvictedTexts evicted{kRememberedEvictions};

  // A segment that is being written from pages of the tree or from a state.
  struct Spill {
    uint64_t id = 0;
    std::vector<PrefixTree::NodeId> pages;
    PrefixTree::NodeId state_of = PrefixTree::kRoot;
  };
  // A segment that is being read, and the sequences that wait for it.
  struct Fetch {
    std::string name;
    std::vector<int32_t> waiters;
  };
  std::unique_ptr<disk::Store> store;  // null: no disk cache
  std::vector<Spill> spills;
  std::vector<Fetch> fetches;
  uint64_t n_restored_pages = 0;
  uint64_t n_restored_spans = 0;

  std::vector<tensor::PageTable> tables;  // of the last view()
  std::vector<float*> states;             // of the last states()
  std::vector<const float*> states_before;

  // cache.cpp
  Result<void> add_layer(backends::Backend& backend, const tensor::KvLayerSpec& spec, tensor::KvType type);
  Pool& pool_of(int64_t window, int32_t& index);
  Sequence& find(SequenceId id);
  void append_page(Pool& pool, Table& table);
  void drop_pages(Pool& pool, Table& table, int64_t end);
  void give_memory_back(Pool& pool);
  void release_runs(Pool& pool, std::span<const PageRun> runs);
  void remove(Sequence& sequence);

  // reuse.cpp
  // Part of the tree that a sequence could go on from.
  struct Match {
    int64_t n_tokens = 0;
    std::vector<PrefixTree::NodeId> full;             // nodes below the sequence's own
    PrefixTree::NodeId part = PrefixTree::kRoot;      // whose first tokens end the match; kRoot: none
    PrefixTree::NodeId state_of = PrefixTree::kRoot;  // where the recurrent state comes from
  };
  Match find_match(const Sequence& sequence, std::span<const int32_t> tokens) const;
  static Match cut(const Sequence& sequence, const Match& match, int64_t n_full);
  bool is_usable(const Sequence& sequence, const Match& match) const;
  std::optional<Match> find_usable_match(const Sequence& sequence, std::span<const int32_t> tokens) const;
  void take_match(Sequence& sequence, const Match& match);
  void copy_page(Pool& pool, int32_t from, int32_t to);
  void enter(Sequence& sequence, PrefixTree::NodeId node);

  void merge_page(Sequence& sequence, PrefixTree::NodeId id);
  PrefixTree::NodeId add_page(Sequence& sequence, std::span<const int32_t> tokens);
  PrefixTree::NodeId keep_last_page(Sequence& sequence, std::span<const int32_t> tokens);
  void keep_state(const Sequence& sequence, PrefixTree::NodeId node);
  void make_room_for_state();

  // Frees kept pages until every pool has `n` free ones, or none is left to free.
  void make_room(int64_t n);
  // Until no more than max_kept_pages are kept, or all the rest is in use.
  void evict_surplus();
  bool evict_oldest();
  bool evict_hidden_page(size_t pool);
  void let_go(const PrefixTree::Node& node);

  // disk.cpp
  void open_disk(std::string_view backend, std::span<const tensor::KvLayerSpec> specs);
  std::vector<PrefixTree::NodeId> path_to(PrefixTree::NodeId last) const;
  std::vector<int32_t> text_of(std::span<const PrefixTree::NodeId> path) const;
  // Writes what the disk does not have of the text that ends at the node.
  void spill(PrefixTree::NodeId last);
  std::vector<size_t> states_to_spill(std::span<const PrefixTree::NodeId> path,
                                      std::span<const disk::IndexedPage> known) const;
  void spill_pages(std::span<const PrefixTree::NodeId> path, std::span<const int32_t> tokens, size_t begin, size_t end,
                   disk::Write write, uint64_t& previous);
  void spill_state(PrefixTree::NodeId node, std::span<const int32_t> tokens, disk::Write write, uint64_t& previous);
  void start_write(disk::Write write, Spill spill, uint64_t& previous);
  // The pages or the state that this write reads are about to change. 0: none.
  void stop_write(uint64_t id);
  void forget_write(uint64_t id);

  void release_text(PrefixTree::NodeId last);

  // What of a text is in memory and on disk, page by page.
  struct Known {
    std::vector<PrefixTree::NodeId> nodes;
    std::vector<disk::IndexedPage> on_disk;
  };
  Known find_known(std::span<const int32_t> tokens) const;
  // Pages of the longest beginning that could be gone on from, if all that is on disk were in memory.
  size_t find_restorable(const Known& known, int64_t above) const;
  void take_in(const disk::Contents& contents);
  bool take_in_page(const disk::Contents& contents, int64_t page, PrefixTree::NodeId& node);
  void take_in_state(const disk::Contents& contents, PrefixTree::NodeId node);
};

}  // namespace tempo9::kv
