#include "kv/disk/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace tempo9::kv::disk {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> failed(const std::string& path, int reason) {
  const auto code = reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
  return fail(code, fmt::format("{}: {}", path, std::strerror(reason)));
}

Result<void> to_result(const std::string& path, const std::error_code& error) {
  if (!error) return {};
  return failed(path, error.value());
}

class RealFile final : public OpenFile {
 public:
  RealFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~RealFile() override { ::close(fd_); }

  int fd() const { return fd_; }

  Result<uint64_t> size() override {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return failed(path_, errno);
    return static_cast<uint64_t>(info.st_size);
  }

  Result<void> read(uint64_t offset, std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed(path_, errno);
      if (n == 0) return fail(ErrorCode::kIo, fmt::format("{}: ends at {}", path_, offset));
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return failed(path_, n < 0 ? errno : EIO);
      offset += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  Result<void> resize(uint64_t bytes) override {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return failed(path_, errno);
    return {};
  }

  void drop_from_memory() override {
#ifdef POSIX_FADV_DONTNEED
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
#endif
  }

 private:
  const int fd_;
  const std::string path_;
};

class RealFileSystem final : public FileSystem {
 public:
  Result<std::vector<FileEntry>> list(const std::string& folder) override {
    std::error_code error;
    fs::directory_iterator at(folder, error);
    if (error) return failed(folder, error.value());
    std::vector<FileEntry> entries;
    for (; at != fs::directory_iterator(); at.increment(error)) {
      if (error) return failed(folder, error.value());
      struct stat info {};
      if (::lstat(at->path().c_str(), &info) != 0) continue;  // gone meanwhile
#ifdef __APPLE__
      const auto& time = info.st_mtimespec;
#else
      const auto& time = info.st_mtim;
#endif
      entries.push_back({.name = at->path().filename().string(),
                         .bytes = S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0,
                         .modified_ns = static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec,
                         .is_folder = S_ISDIR(info.st_mode)});
    }
    return entries;
  }

  Result<void> make_folders(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    return to_result(path, error);
  }

  Result<std::unique_ptr<OpenFile>> open(const std::string& path) override {
    return open_with(path, O_RDONLY | O_NONBLOCK);
  }

  Result<std::unique_ptr<OpenFile>> create(const std::string& path) override {
    T9_TRY(file, open_with(path, O_RDWR | O_CREAT | O_EXCL));
    if (::flock(static_cast<RealFile&>(*file).fd(), LOCK_EX | LOCK_NB) != 0) return failed(path, errno);
    return file;
  }

  Result<void> rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return failed(from, errno);
    return {};
  }

  Result<void> remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return failed(path, errno);
    return {};
  }

  Result<void> remove_unless_locked(const std::string& path) override {
    T9_TRY(file, open_with(path, O_RDONLY | O_NONBLOCK));
    if (::flock(static_cast<RealFile&>(*file).fd(), LOCK_EX | LOCK_NB) != 0) {
      return fail(ErrorCode::kOutOfCapacity, fmt::format("{}: is being written", path));
    }
    return remove(path);
  }

  Result<void> set_modified(const std::string& path, int64_t modified_ns) override {
    timespec times[2];
    times[0] = {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    times[1] = {.tv_sec = modified_ns / 1'000'000'000, .tv_nsec = modified_ns % 1'000'000'000};
    if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return failed(path, errno);
    return {};
  }

  Result<uint64_t> free_bytes(const std::string& folder) override {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) return failed(folder, errno);
    return static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_frsize);
  }

  Result<std::unique_ptr<OpenFile>> lock(const std::string& path) override {
    T9_TRY(file, open_with(path, O_RDWR | O_CREAT));
    constexpr int kAttempts = 100;
    for (int i = 0; i < kAttempts; ++i) {
      if (::flock(static_cast<RealFile&>(*file).fd(), LOCK_EX | LOCK_NB) == 0) return file;
      if (errno != EWOULDBLOCK && errno != EINTR) return failed(path, errno);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return fail(ErrorCode::kOutOfCapacity, fmt::format("{}: is held by another process", path));
  }

 private:
  static Result<std::unique_ptr<OpenFile>> open_with(const std::string& path, int flags) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
    if (fd < 0) return failed(path, errno);
    return std::make_unique<RealFile>(fd, path);
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem file_system;
  return file_system;
}

}  // namespace tempo9::kv::disk
