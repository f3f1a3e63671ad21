#include "kv/disk/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string_view>
#include <tuple>

#include "base/check.h"

namespace tempo9::kv::disk {
namespace {

constexpr std::string_view kSuffix = ".t9kv";
constexpr std::string_view kUnfinishedSuffix = ".t9kv.tmp";

// Most heads are this small; a longer one takes a second read.
constexpr size_t kFirstRead = size_t{16} << 10;

std::string fresh_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{}", device(), device(), kSuffix);
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool is_config_name(std::string_view name) {
  return name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

// ---- writing

SegmentWriter::SegmentWriter(Folder& folder, std::string name, SegmentHead head, std::unique_ptr<OpenFile> file)
    : folder_(folder),
      name_(std::move(name)),
      head_(std::move(head)),
      file_(std::move(file)),
      end_(encoded_bytes(head_)) {}

SegmentWriter::~SegmentWriter() {
  if (!is_finished_) (void)folder_.files_.remove(folder_.path_of(name_) + ".tmp");
}

Result<void> SegmentWriter::add(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  T9_TRY_VOID(file_->write(end_, bytes));
  end_ += bytes.size();
  return {};
}

Result<std::string> SegmentWriter::finish() {
  const size_t n_payload = payload_bytes(head_, folder_.options_.geometry);
  T9_CHECK(end_ == encoded_bytes(head_) + n_payload);
  head_.payload_checksum = checksum_.value();
  T9_TRY_VOID(file_->write(0, encode(head_, folder_.options_.config, n_payload)));
  file_->drop_from_memory();
  const std::string path = folder_.path_of(name_);
  T9_TRY_VOID(folder_.files_.rename(path + ".tmp", path));
  is_finished_ = true;
  return name_;
}

Result<std::unique_ptr<SegmentWriter>> Folder::begin(SegmentHead head) {
  const uint64_t n_bytes = encoded_bytes(head) + payload_bytes(head, options_.geometry);
  T9_TRY_VOID(files_.make_folders(folder_));
  T9_TRY(lock, files_.lock(options_.root + "/lock"));
  T9_TRY_VOID(make_room(n_bytes));
  std::string name = fresh_name();
  T9_TRY(file, files_.create(path_of(name) + ".tmp"));
  std::unique_ptr<SegmentWriter> writer(new SegmentWriter(*this, std::move(name), std::move(head), std::move(file)));
  // At once in its full length, so that other processes count it.
  T9_TRY_VOID(writer->file_->resize(n_bytes));
  total_bytes_ += n_bytes;
  return writer;
}

// ---- reading

Folder::Folder(FileSystem& files, FolderOptions options)
    : files_(files), options_(std::move(options)), folder_(options_.root + "/" + to_hex(options_.config)) {}

Result<std::vector<FoundSegment>> Folder::open() {
  T9_TRY_VOID(files_.make_folders(folder_));
  T9_TRY(entries, files_.list(folder_));
  std::vector<FoundSegment> found;
  for (const FileEntry& entry : entries) {
    if (entry.name.ends_with(kUnfinishedSuffix)) {
      (void)files_.remove_unless_locked(path_of(entry.name));
    } else if (entry.name.ends_with(kSuffix)) {
      Result<SegmentHead> head = read_head(entry.name);
      if (head) found.push_back({entry.name, *std::move(head), entry.modified_ns});
    }
  }
  std::ranges::sort(found, std::ranges::greater(), &FoundSegment::modified_ns);
  T9_TRY(files, all_files());
  total_bytes_ = 0;
  for (const File& file : files) total_bytes_ += file.bytes;
  return found;
}

Result<SegmentHead> Folder::read_head(const std::string& name) {
  T9_TRY(file, files_.open(path_of(name)));
  T9_TRY(size, file->size());
  const auto read = [&]() -> Result<SegmentHead> {
    std::vector<std::byte> bytes(std::min<uint64_t>(size, kFirstRead));
    T9_TRY_VOID(file->read(0, bytes));
    T9_TRY(n_head, head_bytes(bytes));
    if (n_head > bytes.size() && n_head <= size) {
      bytes.resize(n_head);
      T9_TRY_VOID(file->read(0, bytes));
    }
    return decode(bytes, size, options_.config, options_.geometry);
  };
  Result<SegmentHead> head = read();
  if (!head && head.error().code() == ErrorCode::kInvalidInput) {
    ++n_damaged_;
    (void)files_.remove(path_of(name));
  }
  return head;
}

Result<Contents> Folder::read(const std::string& name) {
  T9_TRY(file, files_.open(path_of(name)));
  T9_TRY(size, file->size());
  Contents contents;
  contents.bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  const std::span<std::byte> bytes(contents.bytes.get(), size);
  T9_TRY_VOID(file->read(0, bytes));
  file->drop_from_memory();
  const auto check = [&]() -> Result<void> {
    T9_TRY(head, decode(bytes, size, options_.config, options_.geometry));
    contents.payload = bytes.subspan(encoded_bytes(head));
    Checksum checksum;
    checksum.add(contents.payload);
    if (checksum.value() != head.payload_checksum) {
      return fail(ErrorCode::kInvalidInput, "the payload's checksum is wrong");
    }
    contents.head = std::move(head);
    return {};
  };
  Result<void> checked = check();
  if (checked) return contents;
  ++n_damaged_;
  (void)files_.remove(path_of(name));
  return fail(std::move(checked).error().context(name));
}

void Folder::touch(std::span<const std::string> names) {
  const int64_t now = now_ns();
  for (size_t i = 0; i < names.size(); ++i) {
    (void)files_.set_modified(path_of(names[i]), now - static_cast<int64_t>(i));
  }
}

// ---- the cap

Result<std::vector<Folder::File>> Folder::all_files() {
  T9_TRY(folders, files_.list(options_.root));
  std::vector<File> files;
  for (const FileEntry& folder : folders) {
    if (!folder.is_folder || !is_config_name(folder.name)) continue;
    const auto entries = files_.list(options_.root + "/" + folder.name);
    if (!entries) continue;  // gone meanwhile
    for (const FileEntry& entry : *entries) {
      const bool is_unfinished = entry.name.ends_with(kUnfinishedSuffix);
      if (!is_unfinished && !entry.name.ends_with(kSuffix)) continue;
      files.push_back({.path = options_.root + "/" + folder.name + "/" + entry.name,
                       .name = entry.name,
                       .bytes = entry.bytes,
                       .modified_ns = entry.modified_ns,
                       .is_own = folder.name == to_hex(options_.config),
                       .is_unfinished = is_unfinished});
    }
  }
  std::ranges::sort(files, {},
                    [](const File& file) { return std::tuple(!file.is_unfinished, file.is_own, file.modified_ns); });
  return files;
}

Result<void> Folder::make_room(uint64_t bytes) {
  T9_TRY(files, all_files());
  T9_TRY(free_bytes, files_.free_bytes(options_.root));
  total_bytes_ = 0;
  for (const File& file : files) total_bytes_ += file.bytes;
  const auto fits = [&] {
    return total_bytes_ + bytes <= options_.cap_bytes && free_bytes >= bytes + options_.min_free_bytes;
  };
  if (bytes > options_.cap_bytes) {
    return fail(ErrorCode::kOutOfCapacity, fmt::format("{} bytes in a cap of {}", bytes, options_.cap_bytes));
  }
  for (const File& file : files) {
    if (fits()) return {};
    const Result<void> removed = files_.remove_unless_locked(file.path);
    if (!removed && removed.error().code() != ErrorCode::kNotFound) continue;
    total_bytes_ -= file.bytes;
    free_bytes += file.bytes;
    ++n_evicted_;
    if (file.is_own && !file.is_unfinished) evicted_.push_back(file.name);
  }
  if (fits()) return {};
  return fail(ErrorCode::kOutOfCapacity, fmt::format("{}: no room for {} bytes", options_.root, bytes));
}

}  // namespace tempo9::kv::disk
