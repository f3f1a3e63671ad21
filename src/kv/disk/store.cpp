#include "kv/disk/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace tempo9::kv::disk {
namespace {

// More than a few long prompts; what comes beyond is not written.
constexpr size_t kMaxWaitingWrites = 256;
// After a failed write nothing is written for so long.
constexpr std::chrono::seconds kRetryAfter{60};

// Runs `action`, which gives a Result, without the lock. What a library throws, for lack of memory most likely, becomes
// an error.
auto without(std::unique_lock<std::mutex>& lock, auto&& action) -> decltype(action()) {
  lock.unlock();
  auto result = [&]() -> decltype(action()) {
    try {
      return action();
    } catch (const std::exception& exception) {
      return fail(ErrorCode::kIo, exception.what());
    }
  }();
  lock.lock();
  return result;
}

}  // namespace

Store::Store(const Options& options, const Config& config, const Geometry& geometry)
    : options_(options),
      geometry_(geometry),
      folder_(*options.files, {.root = options.root,
                               .config = config,
                               .geometry = geometry,
                               .cap_bytes = options.cap_bytes,
                               .min_free_bytes = options.min_free_bytes}),
      index_(geometry.n_pools) {
  Result<std::vector<FoundSegment>> found = folder_.open();
  if (!found) {
    note_failure(found.error());
  } else {
    for (FoundSegment& segment : *found) index_.add(std::move(segment.name), segment.head);
  }
  stats_.bytes = folder_.total_bytes();
  stats_.damaged_segments = folder_.n_damaged();
  thread_ = std::thread([this] { loop(); });
}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

// ---- the owner's thread

std::optional<uint64_t> Store::write(Write write) {
  const std::lock_guard lock(mutex_);
  if (writes_.size() >= kMaxWaitingWrites) return std::nullopt;
  writes_.push_back({++last_id_, std::move(write)});
  wake_.notify_all();
  return last_id_;
}

void Store::cancel_write(uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(writes_, [id](const Job& job) { return job.id == id; });
  if (writing_ == id) is_cancelled_ = true;
}

void Store::read(std::string name) {
  const std::lock_guard lock(mutex_);
  reads_.push_back(std::move(name));
  wake_.notify_all();
}

void Store::touch(std::vector<std::string> path) {
  const std::lock_guard lock(mutex_);
  touched_ = std::move(path);
  wake_.notify_all();
}

std::optional<Done> Store::take_done() {
  std::deque<std::string> evicted;
  std::optional<Done> done;
  {
    const std::lock_guard lock(mutex_);
    evicted.swap(evicted_);
    if (!done_.empty()) {
      done = std::move(done_.front());
      done_.pop_front();
      if (std::holds_alternative<Read>(*done)) wake_.notify_all();  // the next may take its place
    }
  }
  for (const std::string& name : evicted) {
    if (const auto segment = index_.find(name)) index_.remove(*segment);
  }
  if (!done) return done;
  if (const auto* written = std::get_if<Written>(&*done); written && written->name) {
    index_.add(*written->name, written->head);
  }
  return done;
}

void Store::notify(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  callback_ = std::move(callback);
}

void Store::finish_writes(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  is_hurried_ = true;
  reads_.clear();
  wake_.notify_all();
  done_changed_.wait_for(lock, limit, [this] { return writes_.empty() && writing_ == 0; });
  is_hurried_ = false;
}

void Store::wait() {
  std::unique_lock lock(mutex_);
  is_hurried_ = true;
  wake_.notify_all();
  done_changed_.wait(
      lock, [this] { return !done_.empty() || (writes_.empty() && writing_ == 0 && reads_.empty() && !is_reading_); });
  is_hurried_ = false;
}

std::optional<std::string> Store::take_problem() {
  const std::lock_guard lock(mutex_);
  return std::exchange(problem_, std::nullopt);
}

StoreStats Store::stats() const {
  const std::lock_guard lock(mutex_);
  StoreStats stats = stats_;
  stats.segments = index_.n_segments();
  return stats;
}

// ---- the I/O thread

void Store::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!reads_.empty()) {
      serve_reads(lock);
    } else if (!writes_.empty()) {
      serve_write(lock);
    } else if (!touched_.empty()) {
      const std::vector<std::string> path = std::exchange(touched_, {});
      (void)without(lock, [&]() -> Result<void> {
        folder_.touch(path);
        return {};
      });
    } else {
      wake_.wait(lock);
    }
  }
}

void Store::announce(Done done) {
  done_.push_back(std::move(done));
  done_changed_.notify_all();
  if (callback_) callback_();
}

// One segment's contents wait to be taken at a time, which bounds their memory.
void Store::serve_reads(std::unique_lock<std::mutex>& lock) {
  const auto is_read = [](const Done& done) { return std::holds_alternative<Read>(done); };
  while (!reads_.empty() && !stopping_) {
    Read read{.name = std::move(reads_.front()), .contents = std::nullopt};
    reads_.pop_front();
    is_reading_ = true;
    Result<Contents> contents = without(lock, [&] { return folder_.read(read.name); });
    stats_.damaged_segments = folder_.n_damaged();
    if (contents) {
      stats_.read_bytes += contents->payload.size();
      read.contents = *std::move(contents);
    } else {
      evicted_.push_back(read.name);
    }
    wake_.wait(lock, [&] { return stopping_ || is_hurried_ || std::ranges::none_of(done_, is_read); });
    is_reading_ = false;
    announce(std::move(read));
  }
}

void Store::serve_write(std::unique_lock<std::mutex>& lock) {
  Job job = std::move(writes_.front());
  writes_.pop_front();
  writing_ = job.id;
  is_cancelled_ = false;
  Written written{.id = job.id, .head = {}, .name = std::nullopt};
  if (!is_failing_ || Clock::now() >= retry_at_) {
    const Result<std::string> name = write_segment(lock, job);
    if (name) {
      written.name = *name;
      is_failing_ = false;
      stats_.written_bytes += payload_bytes(job.write.head, geometry_);
    } else if (name.error().code() != ErrorCode::kCancelled) {
      ++stats_.failed_writes;
      note_failure(name.error());
    }
    for (std::string& evicted : folder_.take_evicted()) evicted_.push_back(std::move(evicted));
    stats_.bytes = folder_.total_bytes();
    stats_.evicted_segments = folder_.n_evicted();
  } else {
    ++stats_.failed_writes;
  }
  written.head = std::move(job.write.head);
  writing_ = 0;
  announce(std::move(written));
}

// Copies up to kCopyBytes more of the parts. False when there are none.
bool Store::copy_next(Job& job, size_t& part, size_t& offset, std::vector<std::byte>& buffer) {
  buffer.clear();
  while (part < job.write.parts.size() && buffer.size() < kCopyBytes) {
    const auto rest = job.write.parts[part].subspan(offset);
    const auto taken = rest.first(std::min(rest.size(), kCopyBytes - buffer.size()));
    buffer.insert(buffer.end(), taken.begin(), taken.end());
    offset += taken.size();
    if (offset < job.write.parts[part].size()) break;
    ++part;
    offset = 0;
  }
  return !buffer.empty();
}

Result<std::string> Store::write_segment(std::unique_lock<std::mutex>& lock, Job& job) {
  T9_TRY(writer, without(lock, [&] { return folder_.begin(job.write.head); }));
  std::vector<std::byte> buffer;
  buffer.reserve(kCopyBytes);
  size_t part = 0;
  size_t offset = 0;
  while (true) {
    if (is_cancelled_ || stopping_) return fail(ErrorCode::kCancelled, "the write was cancelled");
    if (!copy_next(job, part, offset, buffer)) break;
    const Clock::time_point begin = Clock::now();
    T9_TRY_VOID(without(lock, [&] { return writer->add(buffer); }));
    serve_reads(lock);
    pause(lock, Clock::now() - begin);
  }
  return without(lock, [&]() -> Result<std::string> {
    T9_TRY(name, writer->finish());
    if (job.write.after == 0 || job.write.after != previous_write_) previous_path_ = std::move(job.write.path);
    previous_path_.push_back(name);
    previous_write_ = job.id;
    folder_.touch(previous_path_);
    return name;
  });
}

// Writing takes half of the thread's time, so at most half of what the disk can do.
void Store::pause(std::unique_lock<std::mutex>& lock, Clock::duration time) {
  wake_.wait_for(lock, time, [this] { return stopping_ || is_hurried_ || is_cancelled_ || !reads_.empty(); });
}

void Store::note_failure(const Error& error) {
  if (!is_failing_) problem_ = error.message();
  is_failing_ = true;
  retry_at_ = Clock::now() + kRetryAfter;
}

}  // namespace tempo9::kv::disk
