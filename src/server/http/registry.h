// The open connections: how many, and how to reach them when the server stops.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace tempo9::server::http {

class Connection;

// Any thread.
class Registry {
 public:
  // Counts a connection while it lives.
  class Entry {
   public:
    Entry(std::shared_ptr<Registry> registry, uint64_t key) : registry_(std::move(registry)), key_(key) {}
    Entry(Entry&&) = default;
    ~Entry();

   private:
    std::shared_ptr<Registry> registry_;
    uint64_t key_;
  };

  static Entry add(const std::shared_ptr<Registry>& registry, std::weak_ptr<Connection> connection);
  size_t size() const;
  void for_each(const std::function<void(Connection&)>& visit) const;
  // False when connections are left after `timeout`.
  bool wait_until_empty(std::chrono::milliseconds timeout) const;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable emptied_;
  std::map<uint64_t, std::weak_ptr<Connection>> connections_;
  uint64_t next_key_ = 0;
};

}  // namespace tempo9::server::http
