// Everything in the server that could grow or wait, and how far it may.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tempo9::server {

// A struct, so that tests can run with short times.
struct HttpLimits {
  size_t header_bytes = 64 << 10;  // request line and headers
  size_t body_bytes = 64 << 20;
  size_t pipelined_bytes = 64 << 10;  // read ahead while an answer is made
  // Answers, waiting ones included, take a connection each: the engine's queue (512) and what runs must fit.
  size_t connections = 1024;
  // Connections over the limit that are told so at the same time; more are closed without a word.
  size_t turned_away = 32;

  std::chrono::milliseconds header_timeout{10'000};         // first byte to the end of the headers
  std::chrono::milliseconds body_progress_timeout{30'000};  // between two arrivals of body bytes
  std::chrono::milliseconds body_timeout{600'000};          // the whole body
  std::chrono::milliseconds idle_timeout{300'000};          // between requests; clients keep pools of connections
  std::chrono::milliseconds write_timeout{120'000};         // a client that takes no byte for this long is gone
  std::chrono::milliseconds linger_timeout{2'000};          // reading off what a refused client still sends
  std::chrono::milliseconds keep_alive_interval{10'000};    // silence in a stream before a sign of life
};

inline constexpr int kNetworkThreads = 2;
inline constexpr int kPrepareThreads = 2;

inline constexpr size_t kMaxJsonDepth = 512;
// Of one object. Finding a field walks the keys; a logit_bias over the largest vocabulary (262,144) fits.
inline constexpr size_t kMaxJsonKeys = 300'000;
inline constexpr size_t kMaxStopStrings = 16;
// Of one request. Histories carry every screenshot of a long session.
inline constexpr size_t kMaxImages = 256;
inline constexpr int64_t kMaxImagePixels = 1'000'000'000;
// Grammars of schemas and tools that are kept compiled; a large one takes some megabytes.
inline constexpr size_t kKeptGrammars = 64;
// Responses that clients may go on from, and the text of them together.
inline constexpr size_t kStoredResponses = 64;
inline constexpr size_t kStoredResponseBytes = 64 << 20;
// Requests that have ended which the status page still knows.
inline constexpr size_t kShownRequests = 100;
// Work is queued and no engine step has ended for this long: /health says so.
inline constexpr double kStalledAfterSeconds = 30.0;

}  // namespace tempo9::server
