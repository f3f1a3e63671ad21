// The engine as the server sees it. Engine implements it; tests put a scripted one in its place.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "engine/histogram.h"
#include "engine/request.h"
#include "engine/speculation/options.h"

namespace tempo9::engine {

// A request's answer. Shared by the engine thread, which produces, and one consumer. Bounded: see engine/limits.h.
class Stream {
 public:
  virtual ~Stream() = default;

  // The next event, or nothing if none is ready. After an event with `finish` or `error` there are no more.
  virtual std::optional<Event> poll() = 0;
  // `callback` is called, on the engine's thread, whenever an event becomes ready after a poll that found none, or at
  // once when one already is. It must not block or call back into the stream. An empty function unsets it; once
  // `notify` returns, the old one is not running and will not be called.
  virtual void notify(std::function<void()> callback) = 0;
  // Waits for the next event; for tests and tools.
  virtual Event wait() = 0;
  // The client has gone: the sequence ends before its next step. Safe to repeat, from any thread, and after the end.
  virtual void cancel() = 0;
  // The consumer has the whole answer, whatever the model would still write: as cancel(), but the request is counted
  // and logged as one that ended by itself.
  virtual void end() = 0;
};

// The disk cache. Counters since start, but `bytes` and `segments`.
struct DiskStats {
  uint64_t bytes = 0;            // of all files in its folder, those of other models too
  int64_t segments = 0;          // that this model can use
  uint64_t restored_tokens = 0;  // whose pages came from disk
  uint64_t restored_spans = 0;   // segments that they came in
  uint64_t written_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t evicted = 0;  // segments that made room
  uint64_t damaged = 0;  // segments that were found to be
  uint64_t failed_writes = 0;
};

// Everything that serving takes beside the weights. Resident is what is paid for; the rest is address space until it is
// used.
struct MemoryStats {
  size_t budget_bytes = 0;       // 0: none was set
  size_t activation_bytes = 0;   // working memory and logits of the passes that may be open at once
  size_t disk_buffer_bytes = 0;  // of the disk cache, at most
  size_t speculation_bytes = 0;  // of guesses: the block that makes them, and rows that may be taken back
  size_t image_row_bytes = 0;    // rows of images in one pass
  double bytes_per_token = 0.0;  // of pages, over all layers
  size_t pages_resident_bytes = 0;
  size_t pages_reserved_bytes = 0;
  size_t state_bytes = 0;   // one recurrent state
  int64_t states_used = 0;  // by requests
  int64_t states_kept = 0;  // for requests to come
};

// Requests that have ended, by how.
struct EndedCounts {
  uint64_t stop = 0;
  uint64_t length = 0;
  uint64_t cancelled = 0;
  uint64_t error = 0;
};

struct ServiceStats {
  int64_t running = 0;
  int64_t waiting = 0;
  uint64_t steps = 0;            // engine steps since start
  double last_step_age_s = 0.0;  // seconds since a step ended; 0 while nothing is queued or running
  uint64_t prompt_tokens = 0;    // of prompts that were read to their end, those reused included
  uint64_t reused_tokens = 0;    // of them, tokens whose pages were there already
  uint64_t completion_tokens = 0;
  uint64_t cancelled = 0;
  int64_t kv_pages_used = 0;  // by requests
  int64_t kv_pages_kept = 0;  // for requests to come, whether or not one uses them too
  uint64_t kv_evictions = 0;  // pages that were kept and made room
  int64_t kv_pages_total = 0;
  uint64_t decode_rows = 0;  // rows of passes, by what they were
  uint64_t prefill_rows = 0;
  double step_s = 0.0;             // time that passes took, in all
  double thread_wait_s = 0.0;      // of it, that the engine's thread waited for the others
  double disk_wait_s = 0.0;        // that requests waited for the disk cache, each counted
  uint64_t weight_bytes_read = 0;  // by passes (read_bytes.h)
  uint64_t kv_bytes_read = 0;
  EndedCounts ended;
  // Seconds, of requests: to the first pass that read of the prompt, to the first token; between tokens; to the end.
  Histogram queue_s{kWaitBounds};
  Histogram first_token_s{kWaitBounds};
  Histogram token_gap_s{kGapBounds};
  Histogram request_s{kWaitBounds};
  // That the machine took while they ran, other programs' part included; absent where it does not say.
  std::optional<double> energy_j;
  MemoryStats memory;
  DiskStats disk;
  SpeculationStats speculation;
};

class Service {
 public:
  virtual ~Service() = default;

  // Queues a request; thread-safe, never waits. Errors: kInvalidInput with overflow() when the prompt leaves no room
  // for one token or holds an id outside the vocabulary; kOutOfCapacity when the queue is full or the engine stops.
  virtual Result<std::shared_ptr<Stream>> submit(Request request) = 0;
  virtual ServiceStats stats() const = 0;
  // Tokens a prompt and its answer may have together.
  virtual int64_t context_length() const = 0;
};

}  // namespace tempo9::engine
