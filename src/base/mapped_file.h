// A regular file mapped read-only and private.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"

namespace tempo9 {

// Owns the mapping; views into it live as long as the object, also after a move. Thread-safe once open.
// The size is taken once, from the opened descriptor. If somebody truncates the file later, reading past its new end
// raises SIGBUS: model files must not be changed in place while they are served.
class MappedFile {
 public:
  // Errors: kNotFound, kIo; kInvalidInput when the path is a directory or another thing that is no regular file.
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  size_t size() const { return size_; }
  // Modification time in nanoseconds since the epoch, as it was at open.
  int64_t modified_ns() const { return modified_ns_; }

 private:
  MappedFile() = default;

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ns_ = 0;
};

// Lets go of the pages wholly inside `bytes` of a mapped file; they come back from the file when they are read again.
void drop_mapped_pages(std::span<const std::byte> bytes);

}  // namespace tempo9
