// Folders and faulty file systems for tests of the disk cache.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "kv/disk/file_system.h"

namespace tempo9::kv::testing {

// A folder of its own that goes with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string path = std::filesystem::temp_directory_path() / "tempo9-kv-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::vector<std::filesystem::path> files_below(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".t9kv") || name.ends_with(".tmp")) files.push_back(entry.path());
  }
  return files;
}

inline uint64_t bytes_below(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& path : files_below(folder)) bytes += std::filesystem::file_size(path);
  return bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// The real one, until `fails` says which call fails: its name, with the errors of a full or read-only disk.
class FaultyFiles : public disk::FileSystem {
 public:
  std::function<bool(const std::string& call)> fails = [](const std::string&) { return false; };
  int reason = ENOSPC;
  std::atomic<int> n_failed = 0;

  Result<std::vector<disk::FileEntry>> list(const std::string& folder) override {
    return attempt("list", [&] { return real_.list(folder); });
  }
  Result<void> make_folders(const std::string& path) override {
    return attempt("make_folders", [&] { return real_.make_folders(path); });
  }
  Result<std::unique_ptr<disk::OpenFile>> open(const std::string& path) override {
    return attempt("open", [&] { return wrap(real_.open(path)); });
  }
  Result<std::unique_ptr<disk::OpenFile>> create(const std::string& path) override {
    return attempt("create", [&] { return wrap(real_.create(path)); });
  }
  Result<void> rename(const std::string& from, const std::string& to) override {
    return attempt("rename", [&] { return real_.rename(from, to); });
  }
  Result<void> remove(const std::string& path) override {
    return attempt("remove", [&] { return real_.remove(path); });
  }
  Result<void> remove_unless_locked(const std::string& path) override {
    return attempt("remove", [&] { return real_.remove_unless_locked(path); });
  }
  Result<void> set_modified(const std::string& path, int64_t modified_ns) override {
    return attempt("set_modified", [&] { return real_.set_modified(path, modified_ns); });
  }
  Result<uint64_t> free_bytes(const std::string& folder) override {
    return attempt("free_bytes", [&] { return real_.free_bytes(folder); });
  }
  Result<std::unique_ptr<disk::OpenFile>> lock(const std::string& path) override {
    return attempt("lock", [&] { return real_.lock(path); });
  }

 private:
  class File : public disk::OpenFile {
   public:
    File(FaultyFiles& files, std::unique_ptr<disk::OpenFile> real) : files_(files), real_(std::move(real)) {}
    Result<uint64_t> size() override { return real_->size(); }
    Result<void> read(uint64_t offset, std::span<std::byte> bytes) override {
      return files_.attempt("read", [&] { return real_->read(offset, bytes); });
    }
    Result<void> write(uint64_t offset, std::span<const std::byte> bytes) override {
      return files_.attempt("write", [&] { return real_->write(offset, bytes); });
    }
    Result<void> resize(uint64_t bytes) override {
      return files_.attempt("resize", [&] { return real_->resize(bytes); });
    }
    void drop_from_memory() override {}

   private:
    FaultyFiles& files_;
    std::unique_ptr<disk::OpenFile> real_;
  };

  Result<std::unique_ptr<disk::OpenFile>> wrap(Result<std::unique_ptr<disk::OpenFile>> file) {
    if (!file) return file;
    return std::make_unique<File>(*this, *std::move(file));
  }
  auto attempt(const std::string& call, auto&& action) -> decltype(action()) {
    if (!fails(call)) return action();
    ++n_failed;
    return fail(ErrorCode::kIo, std::strerror(reason));
  }

  disk::FileSystem& real_ = disk::real_file_system();
};

}  // namespace tempo9::kv::testing
