#include "engine/wait_queue.h"

#include <algorithm>

#include "base/check.h"

namespace tempo9::engine {

void WaitQueue::push(std::unique_ptr<Sequence> sequence) {
  T9_CHECK(!is_full());
  auto client = std::ranges::find(clients_, sequence->client, &Client::name);
  if (client == clients_.end()) {
    clients_.push_back({.name = sequence->client, .waiting = {}});
    client = std::prev(clients_.end());
  }
  client->waiting.push_back(std::move(sequence));
  ++size_;
}

std::unique_ptr<Sequence> WaitQueue::pop_if(const std::function<bool(const Sequence&)>& accept) {
  if (clients_.empty() || !accept(*clients_.front().waiting.front())) return nullptr;
  Client client = std::move(clients_.front());
  clients_.pop_front();
  std::unique_ptr<Sequence> sequence = std::move(client.waiting.front());
  client.waiting.pop_front();
  --size_;
  if (!client.waiting.empty()) clients_.push_back(std::move(client));
  return sequence;
}

std::vector<std::unique_ptr<Sequence>> WaitQueue::extract(const std::function<bool(const Sequence&)>& is_wanted) {
  std::vector<std::unique_ptr<Sequence>> taken;
  for (Client& client : clients_) {
    for (std::unique_ptr<Sequence>& sequence : client.waiting) {
      if (is_wanted(*sequence)) taken.push_back(std::move(sequence));
    }
    std::erase(client.waiting, nullptr);
  }
  std::erase_if(clients_, [](const Client& client) { return client.waiting.empty(); });
  size_ -= static_cast<int64_t>(taken.size());
  return taken;
}

}  // namespace tempo9::engine
