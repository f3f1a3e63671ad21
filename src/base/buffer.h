// Memory that is reserved at once and paid for page by page as it is touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tempo9 {

// Owns an anonymous mapping, zero-filled, aligned to the system's page size. Nothing is resident until it is written
// (or read). Views live as long as the object, also after a move.
class Buffer {
 public:
  Buffer() = default;
  // Errors: kOutOfCapacity when the address space or the commit limit does not allow it.
  static Result<Buffer> reserve(size_t bytes);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }

  // Gives the whole system pages inside [offset, offset + bytes) back: they read as zero and cost nothing again.
  void release(size_t offset, size_t bytes);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Of the machine, or of the control group (container) that the process runs in, whichever is less.
uint64_t usable_memory_bytes();

// What this process could still take without pushing others out: free memory and what the system keeps only as a cache,
// within the control group's limit (version 2) if there is one. 0 where the system does not say.
uint64_t available_memory_bytes();

}  // namespace tempo9
