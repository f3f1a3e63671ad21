// Grammars that were compiled lately: clients send the same tools with every request.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "grammar/grammar.h"

namespace tempo9::grammar {

// Any thread may use it; compiling happens outside its lock.
class GrammarCache {
 public:
  using Compile = std::function<Result<std::shared_ptr<const Grammar>>()>;

  // Keeps the `capacity` grammars that were asked for last. REQUIRES: capacity > 0.
  explicit GrammarCache(size_t capacity) : capacity_(capacity) {}

  // The grammar of `key`, which holds all that it depends on (the text of the schema and the options); compiled when it
  // is not there. Errors are not kept.
  Result<std::shared_ptr<const Grammar>> get(const std::string& key, const Compile& compile);

 private:
  using Entry = std::pair<std::string, std::shared_ptr<const Grammar>>;

  std::shared_ptr<const Grammar> find(const std::string& key);
  void insert(const std::string& key, const std::shared_ptr<const Grammar>& grammar);

  const size_t capacity_;
  std::mutex mutex_;                                                         // guards what follows
  std::list<Entry> entries_;                                                 // latest first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_;  // keys are those in entries_
};

}  // namespace tempo9::grammar
