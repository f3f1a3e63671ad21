#include "server/response_store.h"

#include <iterator>
#include <utility>
#include <vector>

namespace tempo9::server {

void ResponseStore::put(StoredResponse response) {
  if (response.n_bytes() > max_bytes_) return;
  auto entry = std::make_shared<const StoredResponse>(std::move(response));
  const std::lock_guard hold(mutex_);
  if (const auto old = places_.find(entry->id); old != places_.end()) drop(old->second);
  n_bytes_ += entry->n_bytes();
  entries_.push_front(std::move(entry));
  places_.emplace(entries_.front()->id, entries_.begin());
  while (entries_.size() > max_responses_ || n_bytes_ > max_bytes_) drop(std::prev(entries_.end()));
}

std::shared_ptr<const StoredResponse> ResponseStore::find(std::string_view id) {
  const std::lock_guard hold(mutex_);
  const auto place = places_.find(id);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return entries_.front();
}

bool ResponseStore::erase(std::string_view id) {
  const std::lock_guard hold(mutex_);
  const auto place = places_.find(id);
  if (place == places_.end()) return false;
  drop(place->second);
  return true;
}

std::optional<Json> ResponseStore::find_item(std::string_view item_id) const {
  std::vector<std::shared_ptr<const StoredResponse>> entries;
  {
    const std::lock_guard hold(mutex_);
    entries.assign(entries_.begin(), entries_.end());
  }
  const std::string quoted = dump_json(Json(item_id));
  for (const auto& entry : entries) {
    if (!entry->items.contains(quoted)) continue;
    for (Json& item : Json::parse("[" + entry->items + "]")) {
      if (item.is_object() && item.value("id", Json()) == Json(item_id)) return std::move(item);
    }
  }
  return std::nullopt;
}

void ResponseStore::drop(Entries::iterator entry) {
  n_bytes_ -= (*entry)->n_bytes();
  places_.erase((*entry)->id);
  entries_.erase(entry);
}

}  // namespace tempo9::server
