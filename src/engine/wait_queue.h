// Requests that wait to be admitted: first in, first out for each client, round-robin over clients, bounded in all.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/sequence.h"

namespace tempo9::engine {

// Not thread-safe: the engine guards it.
class WaitQueue {
 public:
  explicit WaitQueue(int64_t capacity) : capacity_(capacity) {}

  int64_t size() const { return size_; }
  bool is_full() const { return size_ >= capacity_; }

  // REQUIRES: not full.
  void push(std::unique_ptr<Sequence> sequence);
  // The next in turn, if there is one and `accept` says yes; else null. A refused one keeps its turn.
  std::unique_ptr<Sequence> pop_if(const std::function<bool(const Sequence&)>& accept);
  // Takes out all for which `is_wanted` holds, in no particular order.
  std::vector<std::unique_ptr<Sequence>> extract(const std::function<bool(const Sequence&)>& is_wanted);

 private:
  struct Client {
    std::string name;
    std::deque<std::unique_ptr<Sequence>> waiting;  // never empty
  };
  std::deque<Client> clients_;  // the front one is next
  int64_t size_ = 0;
  int64_t capacity_;
};

}  // namespace tempo9::engine
