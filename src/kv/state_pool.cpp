#include "kv/state_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tempo9::kv {
namespace {

constexpr size_t kLayerAlign = 64;
// A multiple of every system's page size, so that dropping a slot gives all of its memory back.
constexpr size_t kSlotAlign = size_t{64} << 10;

size_t round_up(size_t bytes, size_t align) { return (bytes + align - 1) / align * align; }

}  // namespace

Result<StatePool> StatePool::create(backends::Backend& backend, std::span<const tensor::StateLayerSpec> layers,
                                    int64_t n_slots) {
  StatePool pool;
  size_t end = 0;
  for (const tensor::StateLayerSpec& layer : layers) {
    pool.offsets_.push_back(end);
    end += round_up(static_cast<size_t>(layer.floats()) * sizeof(float), kLayerAlign);
  }
  pool.used_bytes_ = end;
  pool.slot_bytes_ = round_up(end, kSlotAlign);
  pool.n_slots_ = n_slots;
  size_t total = 0;
  if (__builtin_mul_overflow(pool.slot_bytes_, static_cast<size_t>(n_slots), &total)) {
    return fail(ErrorCode::kOutOfCapacity,
                fmt::format("recurrent state: {} slots of {} bytes overflow", n_slots, pool.slot_bytes_));
  }
  T9_TRY(memory, backend.reserve(total));
  pool.memory_ = std::move(memory);
  for (int64_t i = n_slots; i > 0; --i) pool.free_.push_back(static_cast<int32_t>(i - 1));
  return pool;
}

int32_t StatePool::take() {
  T9_CHECK(!free_.empty());
  const int32_t slot = free_.back();
  free_.pop_back();
  return slot;
}

void StatePool::drop(int32_t slot) {
  T9_CHECK(slot >= 0 && slot < n_slots_ && std::ranges::find(free_, slot) == free_.end());
  memory_.release(static_cast<size_t>(slot) * slot_bytes_, slot_bytes_);
  free_.push_back(slot);
}

void StatePool::copy(int32_t from, int32_t to) {
  if (slot_bytes_ > 0) std::memcpy(slot(to), slot(from), slot_bytes_);
}

float* StatePool::layer(int32_t slot_index, size_t layer) {
  return reinterpret_cast<float*>(slot(slot_index) + offsets_[layer]);
}

}  // namespace tempo9::kv
