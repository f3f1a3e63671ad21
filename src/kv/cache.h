// What the model keeps of each sequence: pages of K and V, and recurrent state. Owned and used by the engine thread
// only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/result.h"
#include "tensor/kv_view.h"
#include "tensor/program.h"

namespace tempo9::kv {

// A checked handle of a sequence in the cache.
struct SequenceId {
  int32_t value = -1;
  friend bool operator==(SequenceId, SequenceId) = default;
};

// A saved copy of a sequence's recurrent state.
struct StateCopy {
  int32_t slot = -1;
};

struct CacheOptions {
  tensor::KvType type = tensor::KvType::kF16;
  int64_t max_tokens = 0;  // tokens all sequences may hold together; rounded up to pages
  int64_t max_sequences = 0;
  int64_t max_state_copies = 0;  // that may exist at once beside the sequences' own state
};

struct CacheStats {
  int64_t pages_total = 0;    // of each pool
  int64_t pages_used = 0;     // of the pool that has most in use
  size_t bytes_per_page = 0;  // over all layers
  size_t reserved_bytes = 0;  // address space
  size_t resident_bytes = 0;  // of pages in use, and of free ones whose memory is kept for the next sequence
  size_t state_bytes = 0;     // recurrent state of one sequence; 0 for models without
  int64_t states_used = 0;    // sequences and saved copies
};

// Pages are 32 tokens of every layer of a pool; layers with the same window share a pool. Address space for
// `max_tokens` is reserved at once in every pool; memory is paid for as pages are first written, and given back once
// many pages are free (PagePool says how many are kept). A page is all zero when a sequence gets it, so attention may
// multiply what lies behind the last token by 0. Likewise a new sequence's recurrent state is all zero.
class Cache {
 public:
  // Errors: kUnsupported when the backend can't hold `options.type`; kOutOfCapacity when the address space can't be
  // had.
  static Result<std::unique_ptr<Cache>> create(backends::Backend& backend, std::span<const tensor::KvLayerSpec> layers,
                                               std::span<const tensor::StateLayerSpec> state_layers,
                                               const CacheOptions& options);

  // Errors: kOutOfCapacity when max_sequences exist.
  Result<SequenceId> add_sequence();
  // Frees the sequence's pages. The handle is invalid afterwards.
  void remove_sequence(SequenceId id);

  // Makes room for the slots [0, n_tokens) of the sequence. All or nothing. Errors: kOutOfCapacity.
  Result<void> grow(SequenceId id, int64_t n_tokens);
  int64_t n_slots(SequenceId id) const;  // slots with a page
  // Tells the cache that the sequence holds `n_tokens` tokens now: pages that no later row of a sliding layer can see
  // go back to the pool. REQUIRES: n_tokens <= n_slots(id), and not below an earlier call.
  void set_length(SequenceId id, int64_t n_tokens);

  // A page can be had for each of the next `n_tokens` tokens of a new sequence.
  bool has_room(int64_t n_tokens) const;

  // View for one step; index i of the result's tables is ids[i]. Valid until the next change of the cache.
  tensor::KvView view(std::span<const SequenceId> ids);
  // The same of the recurrent state, which a pass over these sequences advances.
  tensor::StateView states(std::span<const SequenceId> ids);

  // Copies a sequence's recurrent state as it is now; the copy outlives the sequence. Pages can be cut at any token,
  // recurrent state can only be gone back to where it was saved. Errors: kOutOfCapacity.
  Result<StateCopy> save_state(SequenceId id);
  // Puts a copy into a sequence, its own or another. The copy stays.
  void restore_state(SequenceId id, StateCopy copy);
  void drop_state(StateCopy copy);

  CacheStats stats() const;

 private:
  Cache() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;

 public:
  ~Cache();
};

}  // namespace tempo9::kv
