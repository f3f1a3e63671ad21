// Responses that clients may ask for again or go on from (spec api 4.9). In memory only, and bounded.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "server/json.h"

namespace tempo9::server {

struct StoredResponse {
  std::string id;
  std::string object;  // the response object, as JSON
  // The items of the conversation up to its end, the response's own included: JSON values with commas between them.
  std::string items;

  size_t n_bytes() const { return id.size() + object.size() + items.size(); }
};

// Any thread may use it.
class ResponseStore {
 public:
  // Keeps those that were used last. One that is larger than `max_bytes` is not kept at all.
  ResponseStore(size_t max_responses, size_t max_bytes) : max_responses_(max_responses), max_bytes_(max_bytes) {}

  void put(StoredResponse response);
  // Null when it is not there.
  std::shared_ptr<const StoredResponse> find(std::string_view id);
  bool erase(std::string_view id);
  // The item with this id, of whichever conversation. Walks all of them.
  std::optional<Json> find_item(std::string_view item_id) const;

 private:
  using Entries = std::list<std::shared_ptr<const StoredResponse>>;

  void drop(Entries::iterator entry);

  const size_t max_responses_;
  const size_t max_bytes_;
  mutable std::mutex mutex_;                                        // guards what follows
  Entries entries_;                                                 // latest first
  std::unordered_map<std::string_view, Entries::iterator> places_;  // keys are ids of entries_
  size_t n_bytes_ = 0;
};

}  // namespace tempo9::server
