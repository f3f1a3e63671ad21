#include "backends/cpu/tiled_weights.h"

#include <algorithm>

#include "base/low_priority.h"
#include "base/mapped_file.h"
#include "kernels/tiles.h"

namespace tempo9::backends::cpu {
namespace {

// Written between two looks at give_up_: a fraction of a millisecond.
constexpr int64_t kPieceBytes = 1 << 20;

// A copy must leave this much of the machine's memory to others.
uint64_t reserved_memory_bytes() { return usable_memory_bytes() / 16; }

// The kernels of a running step come first, but they must not starve this thread either: it makes them faster.
constexpr int kTilingNice = 10;

tensor::WeightView tiled_view(const tensor::WeightView& source, const Buffer& memory) {
  tensor::WeightView view = source;
  view.data = memory.data();
  view.layout = tensor::Layout::kTiled;
  view.is_mapped = false;
  return view;
}

}  // namespace

TiledWeights::~TiledWeights() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    give_up_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

TiledWeights::Key TiledWeights::key_of(const tensor::WeightView& weight) {
  return {weight.data, weight.dtype, weight.cols, weight.rows * weight.depth};
}

void TiledWeights::request(const tensor::WeightView& weight) {
  if (!kernels::can_tile(kernels_, weight)) return;
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = copies_.try_emplace(key_of(weight));
  ++entry->second.n_users;
  if (!is_new) return;
  entry->second.source = weight;
  queue_.push_back(entry->first);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void TiledWeights::release(const tensor::WeightView& weight) {
  std::unique_lock lock(mutex_);
  const auto entry = copies_.find(key_of(weight));
  if (entry == copies_.end() || --entry->second.n_users > 0) return;
  if (busy_ == entry->first) {
    give_up_ = true;
    changed_.wait(lock, [&] { return busy_ != entry->first; });
    if (entry->second.n_users > 0) {  // asked for again in the meantime
      queue_.push_back(entry->first);
      changed_.notify_all();
      return;
    }
  }
  copies_.erase(entry);
}

std::optional<tensor::WeightView> TiledWeights::find(const tensor::WeightView& weight) const {
  const std::lock_guard lock(mutex_);
  const auto entry = copies_.find(key_of(weight));
  if (entry == copies_.end() || !entry->second.is_made) return std::nullopt;
  return tiled_view(weight, entry->second.memory);
}

void TiledWeights::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
}

void TiledWeights::work() {
  lower_priority_of_this_thread(kTilingNice);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const Key key = queue_.front();
    queue_.pop_front();
    const auto entry = copies_.find(key);
    if (entry == copies_.end() || entry->second.is_made) continue;
    busy_ = key;
    give_up_ = false;
    const tensor::WeightView source = entry->second.source;
    lock.unlock();
    Buffer memory;
    const bool is_made = make(source, memory);
    lock.lock();
    // The entry is still there: a release waits for busy_ to change.
    if (is_made && !give_up_) {
      entry->second.memory = std::move(memory);
      entry->second.is_made = true;
      n_made_.fetch_add(1, std::memory_order_release);
      if (source.is_mapped) {
        lock.unlock();
        drop_mapped_pages({source.data, source.size_bytes()});
        lock.lock();
      }
    }
    busy_.reset();
    changed_.notify_all();
  }
}

// False if the copy does not fit, or was given up.
bool TiledWeights::make(const tensor::WeightView& source, Buffer& memory) const {
  if (available_memory_bytes() < source.size_bytes() + reserved_memory_bytes()) return false;
  auto reserved = Buffer::reserve(source.size_bytes());
  if (!reserved) return false;
  memory = std::move(*reserved);
  const int64_t n_rows = source.rows * source.depth;
  const int64_t n = kernels_.tile_rows;
  const int64_t piece = std::max(n, kPieceBytes / static_cast<int64_t>(source.row_bytes) / n * n);
  for (int64_t r = 0; r < n_rows && !give_up_; r += piece) {
    const tensor::IndexRange rows{r, std::min(n_rows, r + piece)};
    kernels_.write_tiles(source, rows, memory.data() + static_cast<size_t>(r) * source.row_bytes);
  }
  return true;
}

}  // namespace tempo9::backends::cpu
