// The disk cache: an index of what its folder holds, and a thread that reads and writes segments.
//
// Used by one thread, the cache's owner; only the I/O thread runs beside it. Nothing here waits for the disk, except
// cancel_write for at most one copy of kCopyBytes, and what says so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "kv/disk/folder.h"
#include "kv/disk/index.h"

namespace tempo9::kv::disk {

struct Options {
  std::string root;  // empty: no disk cache
  uint64_t cap_bytes = 16'000'000'000;
  uint64_t min_free_bytes = 1'000'000'000;
  // Of the model and of whatever else decides what a page's bytes are; the cache adds its own part.
  std::string identity;
  // A run of pages below this waits until its text has grown: small files cost more than they save.
  size_t min_segment_bytes = size_t{1} << 20;
  // Longer runs are divided, which bounds the memory that a restore takes and the time that its copying takes.
  size_t max_segment_bytes = size_t{16} << 20;
  FileSystem* files = &real_file_system();
};

// A segment to write. `parts` is its payload: memory that does not change until the write has ended or was cancelled.
struct Write {
  SegmentHead head;
  std::vector<std::span<const std::byte>> parts;
  // Segments with the text before it, from its beginning on, which are used now; or the write that goes before, 0:
  // none.
  std::vector<std::string> path;
  uint64_t after = 0;
};

// What the I/O thread has done.
struct Written {
  uint64_t id = 0;
  SegmentHead head;
  std::optional<std::string> name;  // absent: it could not be written
};
struct Read {
  std::string name;
  std::optional<Contents> contents;  // absent: it is gone, or was damaged
};
using Done = std::variant<Written, Read>;

struct StoreStats {
  uint64_t bytes = 0;  // of all segments below the root, of every configuration
  int64_t segments = 0;
  uint64_t written_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t evicted_segments = 0;
  uint64_t damaged_segments = 0;
  uint64_t failed_writes = 0;
};

class Store {
 public:
  // Reads the index; without a usable folder the store is empty and problem() says why.
  Store(const Options& options, const Config& config, const Geometry& geometry);
  ~Store();

  const Index& index() const { return index_; }
  const Geometry& geometry() const { return geometry_; }
  const Options& options() const { return options_; }

  // Gives the write's id, never 0; nothing when too much waits already.
  std::optional<uint64_t> write(Write write);
  // Its parts are read no more once this returns. A write that has ended is still announced by take_done.
  void cancel_write(uint64_t id);
  void read(std::string name);
  // As Write::path, without a write.
  void touch(std::vector<std::string> path);
  // The next thing done. An index that lists a segment which is gone is put right here.
  std::optional<Done> take_done();
  // Called by the I/O thread when something was done that take_done has not given yet. Must not call back.
  void notify(std::function<void()> callback);

  // Waits until all writes have ended, for so long at most. Writes do not pause meanwhile.
  void finish_writes(std::chrono::milliseconds limit);
  // Waits until take_done has something to give or nothing is under way. For tests.
  void wait();

  // A line for the log about what does not work; once for each time that it stops working.
  std::optional<std::string> take_problem();
  StoreStats stats() const;

  // What reading and writing take at most: a segment that is read, one that waits to be taken, and a copy to write.
  static size_t most_memory_bytes(const Options& options) { return 2 * options.max_segment_bytes + kCopyBytes; }

  // Bytes copied from the parts at a time, with the lock held.
  static constexpr size_t kCopyBytes = size_t{1} << 20;

 private:
  struct Job {
    uint64_t id = 0;
    Write write;
  };
  using Clock = std::chrono::steady_clock;

  void loop();
  void serve_reads(std::unique_lock<std::mutex>& lock);
  void serve_write(std::unique_lock<std::mutex>& lock);
  Result<std::string> write_segment(std::unique_lock<std::mutex>& lock, Job& job);
  bool copy_next(Job& job, size_t& part, size_t& offset, std::vector<std::byte>& buffer);
  void pause(std::unique_lock<std::mutex>& lock, Clock::duration time);
  void note_failure(const Error& error);
  void announce(Done done);

  const Options options_;
  const Geometry geometry_;
  Folder folder_;  // the I/O thread's, once it runs
  Index index_;    // the owner's

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable done_changed_;
  std::deque<Job> writes_;
  std::deque<std::string> reads_;
  std::vector<std::string> touched_;
  std::deque<Done> done_;
  std::deque<std::string> evicted_;
  std::function<void()> callback_;
  uint64_t last_id_ = 0;
  uint64_t writing_ = 0;  // id of the write under way; 0: none
  bool is_cancelled_ = false;
  bool is_reading_ = false;
  bool is_hurried_ = false;
  bool stopping_ = false;
  std::optional<std::string> problem_;
  bool is_failing_ = false;
  Clock::time_point retry_at_{};
  StoreStats stats_;

  // The I/O thread's: the text of the write before.
  uint64_t previous_write_ = 0;
  std::vector<std::string> previous_path_;

  std::thread thread_;
};

}  // namespace tempo9::kv::disk
