#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tempo9 {

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that nobody writes to must not hang.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const auto code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return fail(code, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    const int reason = errno;
    ::close(fd);
    return fail(ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(reason)));
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("{}: {}", path, S_ISDIR(info.st_mode) ? "is a directory, not a file" : "is not a regular file"));
  }
  MappedFile file;
  file.size_ = static_cast<size_t>(info.st_size);
#ifdef __APPLE__
  const auto& time = info.st_mtimespec;
#else
  const auto& time = info.st_mtim;
#endif
  file.modified_ns_ = static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  if (file.size_ > 0) {  // mmap refuses empty ranges
    void* map = ::mmap(nullptr, file.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
      const int reason = errno;
      ::close(fd);
      return fail(ErrorCode::kIo, fmt::format("{}: cannot map {} bytes: {}", path, file.size_, std::strerror(reason)));
    }
    file.data_ = static_cast<const std::byte*>(map);
  }
  ::close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(other.modified_ns_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void drop_mapped_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace tempo9
