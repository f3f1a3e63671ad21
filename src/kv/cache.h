// What the model keeps of each sequence: pages of K and V, and recurrent state. Owned and used by the engine thread
// only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/result.h"
#include "kv/disk/store.h"
#include "tensor/kv_view.h"
#include "tensor/program.h"

namespace tempo9::kv {

// A checked handle of a sequence in the cache.
struct SequenceId {
  int32_t value = -1;
  friend bool operator==(SequenceId, SequenceId) = default;
};

struct CacheOptions {
  tensor::KvType type = tensor::KvType::kF16;
  int64_t max_tokens = 0;  // tokens all sequences may hold together; rounded up to pages
  int64_t max_sequences = 0;
  // What is kept of ended sequences, and of running ones for others: pages, and copies of recurrent states. 0 pages: a
  // sequence's pages go with it.
  int64_t max_kept_pages = 0;
  int64_t max_kept_states = 0;
  // What is kept also goes to disk, to outlive the process. Only with max_kept_pages.
  disk::Options disk = {};
  int64_t max_trials = 0;  // sequences whose recurrent state may be on trial at once
};

struct CacheStats {
  int64_t pages_total = 0;    // of each pool
  int64_t pages_used = 0;     // by sequences, of the pool where they are most
  int64_t pages_kept = 0;     // for reuse, whether or not a sequence uses them too
  size_t bytes_per_page = 0;  // over all layers
  size_t reserved_bytes = 0;  // address space
  size_t resident_bytes = 0;  // of pages in use, and of free ones whose memory is kept for the next sequence
  size_t state_bytes = 0;     // recurrent state of one sequence; 0 for models without
  int64_t states_used = 0;    // by sequences
  int64_t states_kept = 0;    // for reuse
  uint64_t evictions = 0;     // pages that were kept and made room for others
  bool has_disk = false;
  disk::StoreStats disk;
  uint64_t restored_pages = 0;  // from disk
  uint64_t restored_spans = 0;  // segments that they came in
};

// Where a text leaves the kept text that it has most of in common with, in memory or on disk.
struct Difference {
  enum class Reason : uint8_t {
    kNone,          // it does not: all of it is kept
    kNothingAlike,  // no kept text has its first token
    kStoredEnds,    // the kept text is its beginning
    kDiffers,       // the kept text goes on otherwise
    kEvicted,       // more was kept, and made room lately
  };
  Reason reason = Reason::kNone;
  int64_t n_common = 0;
  std::optional<int32_t> stored;  // a token with which kept text goes on, where one in memory does
  std::optional<int32_t> given;   // that of this text
  bool resumes = false;           // with kDiffers: what follows is mostly alike again, token by token
};

// Pages are 32 tokens of every layer of a pool; layers with the same window share a pool. Address space for
// `max_tokens` is reserved at once in every pool; memory is paid for as pages are first written, and given back once
// many pages are free (PagePool says how many are kept). A page is all zero when a sequence gets it, or a copy of
// another: attention may multiply what lies behind the last token by 0. A new sequence's recurrent state is all zero.
//
// Reuse: full pages of sequences are kept in a tree by their tokens (prefix_tree.h) and given to sequences that begin
// alike. Such pages are never written again. A page of which a part agrees is copied. Kept pages that no sequence uses
// make room, oldest first and the ends of texts before their beginnings, when pages run out or are more than
// max_kept_pages. By the numeric contract a page holds the same bits whoever computed it, in whatever pieces.
class Cache {
 public:
  // Errors: kUnsupported when the backend can't hold `options.type`; kOutOfCapacity when the address space can't be
  // had.
  static Result<std::unique_ptr<Cache>> create(backends::Backend& backend, std::span<const tensor::KvLayerSpec> layers,
                                               std::span<const tensor::StateLayerSpec> state_layers,
                                               const CacheOptions& options);

  // Errors: kOutOfCapacity when max_sequences exist.
  Result<SequenceId> add_sequence();
  // Drops the sequence's pages. The handle is invalid afterwards.
  void remove_sequence(SequenceId id);

  // Gives the sequence what is kept of the longest beginning of `tokens` that another had, if that is more than it
  // holds itself. Returns how many tokens it holds now. Models with recurrent layers go back to a kept state; sliding
  // layers need all pages that the next row sees. REQUIRES: it holds tokens.first(its length), and pages for no more.
  int64_t reuse(SequenceId id, std::span<const int32_t> tokens);
  // Lets others have the full pages. `tokens` are those the sequence holds: call it before set_length.
  void publish(SequenceId id, std::span<const int32_t> tokens);
  // Also keeps the recurrent state as it is now. After publish(), at the end of a page.
  void keep_state(SequenceId id);
  // As remove_sequence, and keeps what it held, the last page and the state included.
  void remove_and_keep(SequenceId id, std::span<const int32_t> tokens);

  Difference explain(std::span<const int32_t> tokens) const;

  // Makes room for the slots [0, n_tokens) of the sequence. All or nothing. Errors: kOutOfCapacity.
  Result<void> grow(SequenceId id, int64_t n_tokens);
  int64_t n_slots(SequenceId id) const;  // slots with a page
  // Tells the cache that the sequence holds `n_tokens` tokens now: pages that no later row of a sliding layer can see
  // go back to the pool. REQUIRES: n_tokens <= n_slots(id), and not below an earlier call.
  void set_length(SequenceId id, int64_t n_tokens);
  // Takes back the slots from `n_tokens` on: pages that hold nothing before them go back to the pool. What the rows
  // that stay wrote is not touched. REQUIRES: n_tokens is not below the length that set_length told.
  void truncate(SequenceId id, int64_t n_tokens);

  // A page can be had, if kept ones make room, for each of the next `n_tokens` tokens of a new sequence.
  bool has_room(int64_t n_tokens) const;

  // ---- the disk cache; without one these do nothing

  // Begins to read what the disk has of the longest beginning of `tokens`, beyond what the sequence and reuse() have.
  // While is_fetching(id), waiting gains more than computing. REQUIRES: as reuse(), which is to be called first.
  void fetch(SequenceId id, std::span<const int32_t> tokens);
  bool is_fetching(SequenceId id) const;
  // Takes in what was read and written meanwhile: what was read is there for reuse() then. At most one segment each
  // call, since it is copied. True if there was something.
  bool poll_disk();
  // `callback` is called, on another thread, when poll_disk would find something.
  void notify_disk(std::function<void()> callback);
  // Lets go of the pages, and the states on them, that no sequence uses and that the disk has, and gives all free
  // memory back.
  void release_restorable();
  // Waits until all is written that is to be, for so long at most.
  void finish_writes(std::chrono::milliseconds limit);
  // Waits until all is read and written that is to be. For tests.
  void settle_disk();
  // A line for the log when the disk can't be used, once each time.
  std::optional<std::string> take_disk_problem();

  // View for one step; index i of the result's tables is ids[i]. Valid until the next change of the cache.
  tensor::KvView view(std::span<const SequenceId> ids);
  // The same of the recurrent state, which a pass over these sequences advances.
  tensor::StateView states(std::span<const SequenceId> ids);

  // Puts the next pass's rows of the sequence on trial: states() gives that pass a second place, and the state as it
  // was stays beside it. REQUIRES: fewer than max_trials sequences have ever done so of those that exist. Without
  // recurrent layers there is nothing to do.
  void begin_trial(SequenceId id);
  // The pass's state holds, or that from before it does: then Executable::replay can take it to a part of the rows.
  // REQUIRES: on trial.
  void end_trial(SequenceId id, bool keeps_all);

  CacheStats stats() const;

 private:
  Cache() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;

 public:
  ~Cache();
};

}  // namespace tempo9::kv
