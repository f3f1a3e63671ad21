#include "vision/image_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "base/low_priority.h"
#include "base/sha256.h"
#include "vision/decode/decode.h"
#include "vision/low_priority_threads.h"

namespace tempo9::vision {
namespace {

// Each takes some 200 bytes.
constexpr size_t kSeenFiles = 4096;

std::span<const uint8_t> bytes_of(const std::string& file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

std::string digest_of(const ImageEncoder& encoder, const Image& image) {
  std::string text = fmt::format("{}\n{} {}\n", encoder.identity(), image.width, image.height);
  text.append(image.rgb.begin(), image.rgb.end());
  return sha256_hex(text);
}

}  // namespace

struct ImageService::Request {
  std::vector<std::string> digests;
  Rows rows;
  size_t n_missing = 0;
  Done done;  // empty once it was called, or must not be
};

ImageService::ImageService(ImageEncoder& encoder, const ImageServiceOptions& options)
    : encoder_(encoder),
      options_(options),
      kept_(options.cache_bytes),
      seen_files_(kSeenFiles),
      thread_([this](std::stop_token stop) { run(std::move(stop)); }) {}

ImageService::~ImageService() {
  std::vector<std::stop_source> running;
  {
    const std::lock_guard lock(mutex_);
    for (const Job& job : jobs_) running.push_back(job.stop);
  }
  thread_.request_stop();
  for (std::stop_source& stop : running) stop.request_stop();
  thread_.join();
  for (const Job& job : jobs_) deliver(job.image.digest, job.waiters, fail(ErrorCode::kCancelled, "the server stops"));
}

Result<SeenImage> ImageService::look_at(std::shared_ptr<const std::string> file) {
  const std::string name = sha256_hex(*file);
  {
    const std::lock_guard lock(mutex_);
    if (auto seen = seen_files_.find(name)) {
      return SeenImage{.digest = seen->digest, .grid = seen->grid, .n_pixels = seen->n_pixels, .file = std::move(file)};
    }
  }
  T9_TRY(image, decode_image(bytes_of(*file), options_.limits));
  auto grid = encoder_.grid_of(image.width, image.height);
  if (!grid) return fail(std::move(grid).error().with_reason("invalid_image"));
  SeenFile seen{.digest = digest_of(encoder_, image), .grid = *grid, .n_pixels = int64_t{image.width} * image.height};
  const std::lock_guard lock(mutex_);
  seen_files_.put(name, seen, 1);
  return SeenImage{.digest = seen.digest, .grid = seen.grid, .n_pixels = seen.n_pixels, .file = std::move(file)};
}

std::shared_ptr<ImageService::Request> ImageService::encode(const std::vector<SeenImage>& images, Done done) {
  auto request = std::make_shared<Request>();
  {
    const std::lock_guard lock(mutex_);
    for (const SeenImage& image : images) {
      auto kept = kept_.find(image.digest);
      counted_.hits += kept ? 1 : 0;
      request->digests.push_back(image.digest);
      request->rows.push_back(kept.value_or(nullptr));
      if (kept) continue;
      ++request->n_missing;
      add_job(image, request);
    }
    if (request->n_missing > 0) request->done = std::move(done);
  }
  if (request->n_missing == 0 && done) {
    done(std::move(request->rows));
  } else {
    changed_.notify_all();
  }
  return request;
}

void ImageService::add_job(const SeenImage& image, const std::shared_ptr<Request>& request) {
  const auto job = std::ranges::find_if(
      jobs_, [&](const Job& other) { return other.image.digest == image.digest && !other.stop.stop_requested(); });
  if (job == jobs_.end()) {
    jobs_.push_back({.image = image, .waiters = {request}, .stop = {}});
    return;
  }
  ++counted_.hits;
  if (std::ranges::find(job->waiters, request) == job->waiters.end()) job->waiters.push_back(request);
}

void ImageService::cancel(Request& request) {
  std::vector<std::stop_source> stopped;
  Done dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped = std::exchange(request.done, nullptr);
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      std::erase_if(job->waiters, [&](const auto& waiter) { return waiter.get() == &request; });
      const bool is_wanted = !job->waiters.empty();
      if (!is_wanted && job->is_running) stopped.push_back(job->stop);
      if (!is_wanted && !job->is_running) ++counted_.cancelled;
      job = is_wanted || job->is_running ? std::next(job) : jobs_.erase(job);
    }
  }
  for (std::stop_source& stop : stopped) stop.request_stop();
  const std::lock_guard wait_for_callback(calling_);
}

ImageServiceStats ImageService::stats() const {
  const std::lock_guard lock(mutex_);
  ImageServiceStats stats = counted_;
  stats.cached_bytes = kept_.size();
  stats.cached_images = static_cast<int64_t>(kept_.n_entries());
  stats.waiting = std::ssize(jobs_);
  return stats;
}

void ImageService::run(std::stop_token stop) {
  lower_priority_of_this_thread(kImageNice);
  while (true) {
    std::list<Job>::iterator job;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
      if (stop.stop_requested()) return;
      job = jobs_.begin();
      job->is_running = true;
    }
    const auto started = std::chrono::steady_clock::now();
    const auto rows = encode_now(job->image, job->stop.get_token());
    std::list<Job> done;
    {
      const std::lock_guard lock(mutex_);
      counted_.encode_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
      const bool is_cancelled = !rows && rows.error().code() == ErrorCode::kCancelled;
      ++(rows ? counted_.encoded : is_cancelled ? counted_.cancelled : counted_.failed);
      if (rows) kept_.put(job->image.digest, *rows, (*rows)->rows.size() * sizeof(float));
      done.splice(done.begin(), jobs_, job);
    }
    deliver(done.front().image.digest, done.front().waiters, rows);
  }
}

Result<std::shared_ptr<const ImageEmbeddings>> ImageService::encode_now(const SeenImage& image, std::stop_token stop) {
  try {
    T9_TRY(pixels, decode_image(bytes_of(*image.file), options_.limits));
    T9_TRY(rows, encoder_.encode(pixels, std::move(stop)));
    const bool fits = rows.grid.height == image.grid.height && rows.grid.width == image.grid.width &&
                      rows.cols == encoder_.embedding_cols() &&
                      std::ssize(rows.rows) == rows.grid.n_tokens() * rows.cols;
    if (!fits) return fail(ErrorCode::kInternal, "the vision tower gave other rows than it said");
    return std::make_shared<const ImageEmbeddings>(std::move(rows));
  } catch (const std::exception& exception) {  // of a library, most likely for lack of memory
    return fail(ErrorCode::kInternal, fmt::format("the image could not be encoded: {}", exception.what()));
  }
}

// An error is the answer to all of a request.
void ImageService::deliver(const std::string& digest, const std::vector<std::shared_ptr<Request>>& waiters,
                           const Result<std::shared_ptr<const ImageEmbeddings>>& rows) {
  const std::lock_guard calling(calling_);
  for (const std::shared_ptr<Request>& request : waiters) {
    Done done;
    {
      const std::lock_guard lock(mutex_);
      for (size_t i = 0; rows && i < request->digests.size(); ++i) {
        if (request->digests[i] != digest || request->rows[i]) continue;
        request->rows[i] = *rows;
        --request->n_missing;
      }
      if (!rows || request->n_missing == 0) done = std::exchange(request->done, nullptr);
    }
    if (!done) continue;
    if (rows) {
      done(std::move(request->rows));
    } else {
      done(fail(rows.error()));
    }
  }
}

}  // namespace tempo9::vision
