// Copies of weights in tiles (kernels/tiles.h), which the kernels read faster than the file's order. A thread of low
// priority makes them one after another while the weights in place are already at work; equal bits, so nobody can tell
// when one is exchanged for the other. What a copy replaces of a mapped file is let go of, so that memory stays about
// the file's size.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "base/buffer.h"
#include "kernels/kernels.h"
#include "tensor/views.h"

namespace tempo9::backends::cpu {

// May be used from several threads.
class TiledWeights {
 public:
  explicit TiledWeights(const kernels::MatMulKernels& kernels) : kernels_(kernels) {}
  ~TiledWeights();
  TiledWeights(const TiledWeights&) = delete;
  TiledWeights& operator=(const TiledWeights&) = delete;

  // Asks for `weight` in tiles, unless the kernels have none for it. The same memory is copied once for all who ask.
  // Its memory must live until release() has been called as often.
  void request(const tensor::WeightView& weight);
  // Waits for the thread if that is reading the weight. Copies that were found are gone after the last release.
  void release(const tensor::WeightView& weight);

  // The copy, once it is made; it lives until the weight is released.
  std::optional<tensor::WeightView> find(const tensor::WeightView& weight) const;
  // Grows with each copy that is made, so that those who look for one can look seldom.
  int64_t n_made() const { return n_made_.load(std::memory_order_acquire); }
  // Until each requested copy is made, or left out because memory is short.
  void wait() const;

 private:
  using Key = std::tuple<const std::byte*, tensor::DType, int64_t, int64_t>;  // memory, type, columns, rows
  struct Copy {
    tensor::WeightView source;
    Buffer memory;
    int64_t n_users = 0;
    bool is_made = false;
  };

  static Key key_of(const tensor::WeightView& weight);
  void work();
  bool make(const tensor::WeightView& source, Buffer& memory) const;

  const kernels::MatMulKernels& kernels_;
  std::atomic<int64_t> n_made_ = 0;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  // Under mutex_:
  std::map<Key, Copy> copies_;
  std::deque<Key> queue_;    // keys of copies_, or of such as have been released
  std::optional<Key> busy_;  // what the thread is making
  bool stopping_ = false;
  // Set under mutex_; read by the thread while it works.
  std::atomic<bool> give_up_ = false;  // what it is making is not wanted any more

  std::thread thread_;  // begins with the first request
};

}  // namespace tempo9::backends::cpu
