// What the disk cache asks of a file system, small enough that a test can make any call fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tempo9::kv::disk {

struct FileEntry {
  std::string name;  // without its folder
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since the epoch
  bool is_folder = false;
};

// An open file; closed with the object.
class OpenFile {
 public:
  virtual ~OpenFile() = default;
  virtual Result<uint64_t> size() = 0;
  // All of `bytes`, or kIo.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> bytes) = 0;
  virtual Result<void> write(uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<void> resize(uint64_t bytes) = 0;
  // The system need not keep these bytes in memory.
  virtual void drop_from_memory() = 0;
};

// Errors: kNotFound when the path is not there, kIo with the system's reason else. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::vector<FileEntry>> list(const std::string& folder) = 0;
  virtual Result<void> make_folders(const std::string& path) = 0;
  virtual Result<std::unique_ptr<OpenFile>> open(const std::string& path) = 0;
  // A new file, locked for as long as it is open: see remove_unless_locked.
  virtual Result<std::unique_ptr<OpenFile>> create(const std::string& path) = 0;
  virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
  virtual Result<void> remove(const std::string& path) = 0;
  // kOutOfCapacity when a process, this one or another, is writing the file.
  virtual Result<void> remove_unless_locked(const std::string& path) = 0;
  virtual Result<void> set_modified(const std::string& path, int64_t modified_ns) = 0;
  virtual Result<uint64_t> free_bytes(const std::string& folder) = 0;
  // Held until the object goes, by one process at a time; made when it is not there. Waits up to a second, then
  // kOutOfCapacity.
  virtual Result<std::unique_ptr<OpenFile>> lock(const std::string& path) = 0;
};

// Lives as long as the program.
FileSystem& real_file_system();

}  // namespace tempo9::kv::disk
