#include "server/http/registry.h"

#include <utility>
#include <vector>

#include "server/http/connection.h"

namespace tempo9::server::http {

Registry::Entry::~Entry() {
  if (!registry_) return;
  const std::lock_guard hold(registry_->mutex_);
  registry_->connections_.erase(key_);
  if (registry_->connections_.empty()) registry_->emptied_.notify_all();
}

Registry::Entry Registry::add(const std::shared_ptr<Registry>& registry, std::weak_ptr<Connection> connection) {
  const std::lock_guard hold(registry->mutex_);
  const uint64_t key = registry->next_key_++;
  registry->connections_.emplace(key, std::move(connection));
  return Entry(registry, key);
}

size_t Registry::size() const {
  const std::lock_guard hold(mutex_);
  return connections_.size();
}

void Registry::for_each(const std::function<void(Connection&)>& visit) const {
  // Copied first: the last reference to a connection may go here, and its entry then locks the mutex.
  std::vector<std::shared_ptr<Connection>> alive;
  {
    const std::lock_guard hold(mutex_);
    for (const auto& [key, connection] : connections_) {
      if (auto strong = connection.lock()) alive.push_back(std::move(strong));
    }
  }
  for (const auto& connection : alive) visit(*connection);
}

bool Registry::wait_until_empty(std::chrono::milliseconds timeout) const {
  std::unique_lock hold(mutex_);
  return emptied_.wait_for(hold, timeout, [this] { return connections_.empty(); });
}

}  // namespace tempo9::server::http
