#include "grammar/cache.h"

namespace tempo9::grammar {

Result<std::shared_ptr<const Grammar>> GrammarCache::get(const std::string& key, const Compile& compile) {
  if (auto known = find(key)) return known;
  T9_TRY(grammar, compile());
  insert(key, grammar);
  return grammar;
}

std::shared_ptr<const Grammar> GrammarCache::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void GrammarCache::insert(const std::string& key, const std::shared_ptr<const Grammar>& grammar) {
  const std::scoped_lock lock(mutex_);
  if (places_.contains(key)) return;  // another thread was faster
  entries_.emplace_front(key, grammar);
  places_.emplace(entries_.front().first, entries_.begin());
  if (entries_.size() <= capacity_) return;
  places_.erase(entries_.back().first);
  entries_.pop_back();
}

}  // namespace tempo9::grammar
