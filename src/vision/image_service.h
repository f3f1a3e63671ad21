// Images on their way into prompts: read, encoded beside whatever else runs, and kept for the next time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "vision/decode/limits.h"
#include "vision/encoder.h"
#include "vision/kept_images.h"

namespace tempo9::vision {

// An image that was looked at, not encoded.
struct SeenImage {
  std::string digest;  // of the tower, the size and the pixels: 64 hex digits
  TokenGrid grid;      // of its rows
  int64_t n_pixels = 0;
  std::shared_ptr<const std::string> file;
};

struct ImageServiceOptions {
  size_t cache_bytes = size_t{256} << 20;  // of rows that are kept
  DecodeLimits limits;                     // of each image
};

struct ImageServiceStats {
  size_t cached_bytes = 0;
  int64_t cached_images = 0;
  uint64_t hits = 0;  // images whose rows were there already, or on their way
  uint64_t encoded = 0;
  uint64_t cancelled = 0;  // encodings that nobody waited for any more
  uint64_t failed = 0;
  int64_t waiting = 0;    // images, the one that is encoded included
  double encode_s = 0.0;  // time that encoding took, reading the file included
};

// One thread encodes, one image after another, in the order in which they were asked for; it yields to others, since
// decoding and scaling a large picture are work too. All methods may be called from any thread.
class ImageService {
 public:
  // `encoder` outlives the service.
  ImageService(ImageEncoder& encoder, const ImageServiceOptions& options);
  // Who still waits gets kCancelled.
  ~ImageService();

  // Decodes the file, unless it was seen lately; not for network threads. Errors: kInvalidInput, with the reason
  // invalid_image, for what cannot be decoded or encoded.
  Result<SeenImage> look_at(std::shared_ptr<const std::string> file);

  // The rows of each image. `done` is called once: before this returns when all are there, else on the service's
  // thread, and not at all once cancel() has returned. Images that others wait for too are encoded once. `done` must
  // not block for long.
  struct Request;
  using Rows = std::vector<std::shared_ptr<const ImageEmbeddings>>;
  using Done = std::function<void(Result<Rows>)>;
  std::shared_ptr<Request> encode(const std::vector<SeenImage>& images, Done done);
  // Nobody waits for these rows any more; what is encoded for nobody else stops. Safe after the end.
  void cancel(Request& request);

  ImageServiceStats stats() const;
  const ImageServiceOptions& options() const { return options_; }

 private:
  // An image to encode, and who waits for it.
  struct Job {
    SeenImage image;
    std::vector<std::shared_ptr<Request>> waiters;
    std::stop_source stop;
    bool is_running = false;
  };

  void run(std::stop_token stop);
  Result<std::shared_ptr<const ImageEmbeddings>> encode_now(const SeenImage& image, std::stop_token stop);
  void deliver(const std::string& digest, const std::vector<std::shared_ptr<Request>>& waiters,
               const Result<std::shared_ptr<const ImageEmbeddings>>& rows);
  void add_job(const SeenImage& image, const std::shared_ptr<Request>& request);

  ImageEncoder& encoder_;
  const ImageServiceOptions options_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any changed_;
  std::list<Job> jobs_;
  KeptImages kept_;
  SeenFiles seen_files_;
  ImageServiceStats counted_;
  std::mutex calling_;  // held while a callback runs, so that cancel() can wait for it

  std::jthread thread_;
};

}  // namespace tempo9::vision
