// The segments of one configuration in the disk cache's folder, and the cap over all of them. Calls do I/O and return
// when it is done; one thread at a time. Other processes may use the same folder.
//
//   ROOT/lock                       held while room is made
//   ROOT/CONFIG/NAME.t9kv           a segment, complete and never changed; its time of change is that of its last use
//   ROOT/CONFIG/NAME.t9kv.tmp       one that is being written, or was when its process died
//
// Nothing else under ROOT is ever touched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kv/disk/file_system.h"
#include "kv/disk/segment.h"

namespace tempo9::kv::disk {

struct FolderOptions {
  std::string root;
  Config config{};
  Geometry geometry;
  uint64_t cap_bytes = 0;       // over all segments below root, of every configuration
  uint64_t min_free_bytes = 0;  // left alone on the file system
};

struct FoundSegment {
  std::string name;
  SegmentHead head;
  int64_t modified_ns = 0;
};

// A segment as it was read, checked down to its payload's checksum.
struct Contents {
  SegmentHead head;
  std::unique_ptr<std::byte[]> bytes;
  std::span<const std::byte> payload;  // views `bytes`
};

class Folder;

// One segment on its way to the disk. It is there once finish() has returned, and leaves nothing behind otherwise.
class SegmentWriter {
 public:
  ~SegmentWriter();
  SegmentWriter(const SegmentWriter&) = delete;
  SegmentWriter& operator=(const SegmentWriter&) = delete;

  // The next bytes of the payload.
  Result<void> add(std::span<const std::byte> bytes);
  // Gives the segment's name. REQUIRES: the whole payload was added.
  Result<std::string> finish();

 private:
  friend class Folder;
  SegmentWriter(Folder& folder, std::string name, SegmentHead head, std::unique_ptr<OpenFile> file);

  Folder& folder_;
  const std::string name_;
  SegmentHead head_;
  std::unique_ptr<OpenFile> file_;
  Checksum checksum_;
  uint64_t end_;
  bool is_finished_ = false;
};

class Folder {
 public:
  Folder(FileSystem& files, FolderOptions options);

  // Makes the folder, clears away what dead processes and damage left in it, and gives its segments, the latest used
  // first.
  Result<std::vector<FoundSegment>> open();
  // Makes room within the cap and begins a segment. REQUIRES: the folder outlives the writer. Errors: kOutOfCapacity
  // when there is no room to be made; kIo.
  Result<std::unique_ptr<SegmentWriter>> begin(SegmentHead head);
  // Errors: kNotFound; kInvalidInput when it was damaged, and is now gone; kIo.
  Result<Contents> read(const std::string& name);
  // Notes that the segments of one text, from its beginning on, were used now: later parts go first.
  void touch(std::span<const std::string> names);

  // Own segments that made room since the last call.
  std::vector<std::string> take_evicted() { return std::exchange(evicted_, {}); }
  uint64_t n_damaged() const { return n_damaged_; }
  uint64_t n_evicted() const { return n_evicted_; }  // segments of every configuration
  // Of all segments below root, when room was last made or the folder opened.
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  friend class SegmentWriter;
  struct File {
    std::string path;
    std::string name;
    uint64_t bytes = 0;
    int64_t modified_ns = 0;
    bool is_own = false;
    bool is_unfinished = false;
  };

  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  Result<SegmentHead> read_head(const std::string& name);
  // Every segment file below root, in the order in which they make room.
  Result<std::vector<File>> all_files();
  Result<void> make_room(uint64_t bytes);

  FileSystem& files_;
  const FolderOptions options_;
  const std::string folder_;
  std::vector<std::string> evicted_;
  uint64_t n_damaged_ = 0;
  uint64_t n_evicted_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace tempo9::kv::disk
