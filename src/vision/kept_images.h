// What is kept of images for the next time they come: rows, within so many bytes, and what a file was found to be.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "vision/encoder.h"

namespace tempo9::vision {

// Values by name; those used longest ago make room. Not thread-safe.
template <class T>
class LatestUsed {
 public:
  explicit LatestUsed(size_t capacity) : capacity_(capacity) {}

  // What is larger than all the room is not kept.
  void put(const std::string& name, T value, size_t size) {
    if (places_.contains(name) || size > capacity_) return;
    entries_.push_front({.name = name, .value = std::move(value), .size = size});
    places_[name] = entries_.begin();
    size_ += size;
    while (size_ > capacity_) {
      size_ -= entries_.back().size;
      places_.erase(entries_.back().name);
      entries_.pop_back();
    }
  }
  std::optional<T> find(const std::string& name) {
    const auto place = places_.find(name);
    if (place == places_.end()) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, place->second);
    return place->second->value;
  }
  size_t size() const { return size_; }
  size_t n_entries() const { return entries_.size(); }

 private:
  struct Entry {
    std::string name;
    T value;
    size_t size;
  };
  size_t capacity_;
  size_t size_ = 0;
  std::list<Entry> entries_;  // latest first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> places_;
};

// Rows, by the image's digest; sizes in bytes.
using KeptImages = LatestUsed<std::shared_ptr<const ImageEmbeddings>>;

struct SeenFile {
  std::string digest;
  TokenGrid grid;
  int64_t n_pixels = 0;
};
// By the digest of the file; each counts 1.
using SeenFiles = LatestUsed<SeenFile>;

}  // namespace tempo9::vision
