// Numbers and strings as little-endian bytes in memory, for file formats of our own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"

namespace tempo9 {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie in memory");

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

class ByteWriter {
 public:
  void number(Number auto x) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&x);
    data_.insert(data_.end(), bytes, bytes + sizeof x);
  }
  // A count, then the bytes.
  void text(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    data_.insert(data_.end(), bytes, bytes + text.size());
  }
  // A count, then each element.
  template <Number T>
  void numbers(const std::vector<T>& elements) {
    number(static_cast<uint32_t>(elements.size()));
    for (const T x : elements) number(x);
  }

  const std::vector<std::byte>& data() const { return data_; }

 private:
  std::vector<std::byte> data_;
};

// Reads what a ByteWriter wrote, from bytes that may be anything. After the first mistake everything reads as zero or
// empty, so that a caller may read on and ask status() once, before it uses what it has read. Views the bytes.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <Number T>
  T number() {
    T x{};
    const std::span<const std::byte> bytes = take(sizeof x);
    if (!bytes.empty()) std::memcpy(&x, bytes.data(), sizeof x);
    return x;
  }
  std::string text() {
    const std::span<const std::byte> bytes = take(count(1));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <Number T>
  std::vector<T> numbers() {
    std::vector<T> elements(count(sizeof(T)));
    for (T& x : elements) x = number<T>();
    return elements;
  }
  // A count of elements that need `min_bytes` each: never more than the bytes that are left can hold.
  size_t count(size_t min_bytes) {
    const size_t n = number<uint32_t>();
    if (n <= rest_.size() / min_bytes) return n;
    is_short_ = true;
    rest_ = {};
    return 0;
  }

  bool is_at_end() const { return rest_.empty(); }
  Result<void> status() const {
    if (is_short_) return fail(ErrorCode::kInvalidInput, "ends too early");
    return {};
  }

 private:
  std::span<const std::byte> take(size_t n) {
    if (n > rest_.size()) {
      is_short_ = true;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }

  std::span<const std::byte> rest_;
  bool is_short_ = false;
};

}  // namespace tempo9
