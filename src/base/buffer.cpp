#include "base/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"

namespace tempo9 {
namespace {

// The number after the line's first word `key` in a file of such lines; with an empty key, the file's first number.
std::optional<uint64_t> read_number(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  while (!key.empty() && word != key) {
    if (!(file >> word)) return std::nullopt;
  }
  return file >> number ? std::optional(number) : std::nullopt;
}

uint64_t left_in_control_group() {
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  const auto limit = read_number("/sys/fs/cgroup/memory.max", "");
  const auto used = read_number("/sys/fs/cgroup/memory.current", "");
  const auto cache = read_number("/sys/fs/cgroup/memory.stat", "inactive_file");
  if (!limit || !used) return kNoLimit;
  const uint64_t held = *used - std::min(*used, cache.value_or(0));
  return *limit - std::min(*limit, held);
}

}  // namespace

Result<Buffer> Buffer::reserve(size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
  flags |= MAP_NORESERVE;
#endif
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) {
    return fail(ErrorCode::kOutOfCapacity, fmt::format("cannot reserve {} bytes: {}", bytes, std::strerror(errno)));
  }
  buffer.data_ = static_cast<std::byte*>(map);
  buffer.size_ = bytes;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Buffer::~Buffer() {
  if (data_) ::munmap(data_, size_);
}

void Buffer::release(size_t offset, size_t bytes) {
  T9_CHECK(offset <= size_ && bytes <= size_ - offset);
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes) / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

uint64_t usable_memory_bytes() {
  uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  // Version 2 and version 1 of Linux's control groups, as a container sees its own. "max", for none, is no number.
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const uint64_t limit = read_number(path, "").value_or(0);
    if (limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

uint64_t available_memory_bytes() {
  const auto kilobytes = read_number("/proc/meminfo", "MemAvailable:");
  return std::min(kilobytes.value_or(0) * 1024, left_in_control_group());
}

}  // namespace tempo9
