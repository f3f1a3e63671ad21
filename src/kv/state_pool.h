// Recurrent state (convolution windows, delta-net matrices): slots of fixed size, one for each sequence and for each
// saved copy. Knows nothing of sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "base/buffer.h"
#include "base/result.h"
#include "tensor/program.h"

namespace tempo9::kv {

// Address space for all slots is reserved at once; a slot costs memory from its first write until it is dropped.
class StatePool {
 public:
  StatePool() = default;
  // Errors: kOutOfCapacity when the address space can't be had.
  static Result<StatePool> create(backends::Backend& backend, std::span<const tensor::StateLayerSpec> layers,
                                  int64_t n_slots);

  int64_t n_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t n_used() const { return n_slots_ - n_free(); }
  size_t n_layers() const { return offsets_.size(); }
  size_t slot_bytes() const { return slot_bytes_; }  // 0 for models without such state
  size_t used_bytes() const { return used_bytes_; }  // of a slot: the rest fills it up

  // A slot that is all zero, as a new sequence's state is. REQUIRES: n_free() > 0.
  int32_t take();
  // REQUIRES: the slot is taken.
  void drop(int32_t slot);
  void copy(int32_t from, int32_t to);
  // The used_bytes() of a slot; they stay where they are while the pool lives.
  std::span<std::byte> bytes(int32_t slot_index) { return {slot(slot_index), used_bytes_}; }

  // The floats of one layer of a slot; they stay where they are while the pool lives.
  float* layer(int32_t slot, size_t layer);

 private:
  std::byte* slot(int32_t slot) { return memory_.data() + static_cast<size_t>(slot) * slot_bytes_; }

  Buffer memory_;
  std::vector<size_t> offsets_;  // of each layer in a slot, in bytes
  size_t slot_bytes_ = 0;
  size_t used_bytes_ = 0;
  int64_t n_slots_ = 0;
  std::vector<int32_t> free_;  // taken from the back
};

}  // namespace tempo9::kv
