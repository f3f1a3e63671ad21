// What HTTP costs: a server whose engine has its tokens ready, and clients that read their streams over loopback.
// Prints events per second as fast as they go, and the delay from the engine to the client at a given rate.
//
//   http_bench [CONNECTIONS [TOKENS [RATE [PATH]]]]     default: 64 2000 20000 /v1/chat/completions
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/event_queue.h"
#include "server/byte_tokenizer.h"
#include "server/server.h"

namespace tempo9 {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  int n_connections = 64;
  int n_tokens = 2000;   // of each answer
  double rate = 20'000;  // tokens per second over all connections, for the delays
  std::string path = "/v1/chat/completions";
};

// An engine whose steps give every running request one token. A token's text is 't', then its number in eight digits.
class StepEngine : public engine::Service {
 public:
  // `rate`: tokens per second over all requests; 0: as fast as they are read.
  StepEngine(const Options& options, double rate)
      : options_(options), rate_(rate), sent_(options.n_connections), thread_([this] { run(); }) {}
  ~StepEngine() override {
    stopping_ = true;
    thread_.join();
  }

  Result<std::shared_ptr<engine::Stream>> submit(engine::Request) override {
    auto queue = std::make_shared<engine::EventQueue>(waker_);
    const std::lock_guard hold(mutex_);
    queues_.push_back(queue);
    return engine::make_stream(std::move(queue));
  }
  engine::ServiceStats stats() const override { return {}; }
  int64_t context_length() const override { return 1 << 20; }

  // When the token was given to the server; ask once all are.
  Clock::time_point sent_at(size_t request, size_t token) const { return sent_[request][token]; }

 private:
  // All requests start together, as in a batch.
  void run() {
    while (!stopping_ && !all_are_here()) std::this_thread::yield();
    const auto n = static_cast<size_t>(options_.n_connections);
    for (std::vector<Clock::time_point>& times : sent_) times.resize(static_cast<size_t>(options_.n_tokens));
    std::vector<size_t> next(n, 0);
    const auto begin = Clock::now();
    for (size_t n_done = 0, step = 0; n_done < n && !stopping_; ++step) {
      if (rate_ > 0) {
        std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                                                  static_cast<double>(step * n) / rate_)));
      }
      bool is_blocked = true;
      for (size_t i = 0; i < n; ++i) {
        if (next[i] > static_cast<size_t>(options_.n_tokens) || queues_[i]->is_full()) continue;
        is_blocked = false;
        n_done += push_next(i, next[i]++);
      }
      if (is_blocked) std::this_thread::yield();
    }
  }

  bool all_are_here() {
    const std::lock_guard hold(mutex_);
    return queues_.size() == static_cast<size_t>(options_.n_connections);
  }

  // True for the last event of a request.
  bool push_next(size_t request, size_t token) {
    engine::Event event;
    const bool is_last = token == static_cast<size_t>(options_.n_tokens);
    if (is_last) {
      event.finish = engine::FinishReason::kLength;
    } else {
      event.text = fmt::format("t{:08}", token);
      event.tokens = {1};
      sent_[request][token] = Clock::now();
    }
    queues_[request]->push(std::move(event));
    return is_last;
  }

  const Options& options_;
  const double rate_;
  const std::shared_ptr<engine::Waker> waker_ = std::make_shared<engine::Waker>();
  std::mutex mutex_;
  std::vector<std::shared_ptr<engine::EventQueue>> queues_;
  std::vector<std::vector<Clock::time_point>> sent_;  // by request, by token
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// A client that has asked for a stream and reads it.
struct Reader {
  int fd = -1;
  std::string rest;  // the end of what was read, which may hold the beginning of a token
  std::vector<Clock::time_point> received;
};

int connect_to(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) std::abort();
  return fd;
}

void ask(const Reader& reader, const Options& options) {
  const std::string body =
      R"({"stream":true,"prompt":"x","messages":[{"role":"user","content":"x"}],"max_tokens":1000000})";
  const std::string request = fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                                          options.path, body.size(), body);
  if (send(reader.fd, request.data(), request.size(), 0) < 0) std::abort();
}

// Takes the tokens out of the text; they come in order.
void take_tokens(Reader& reader, std::string_view bytes) {
  constexpr size_t kTokenBytes = 9;
  reader.rest += bytes;
  const auto now = Clock::now();
  size_t at = 0;
  for (;;) {
    const std::string wanted = fmt::format("t{:08}", reader.received.size());
    const size_t found = reader.rest.find(wanted, at);
    if (found == std::string::npos) break;
    reader.received.push_back(now);
    at = found + kTokenBytes;
  }
  if (at == 0 && reader.rest.size() < 4096) return;
  reader.rest.erase(0, std::max(at, reader.rest.size() - std::min(reader.rest.size(), kTokenBytes)));
}

void read_all(std::vector<Reader>& readers, size_t n_tokens) {
  std::vector<pollfd> polls;
  for (const Reader& reader : readers) polls.push_back({reader.fd, POLLIN, 0});
  std::vector<char> buffer(1 << 16);
  for (size_t n_open = readers.size(); n_open > 0;) {
    poll(polls.data(), polls.size(), -1);
    for (size_t i = 0; i < readers.size(); ++i) {
      if ((polls[i].revents & (POLLIN | POLLHUP)) == 0) continue;
      const ssize_t n = read(readers[i].fd, buffer.data(), buffer.size());
      if (n <= 0) std::abort();
      take_tokens(readers[i], {buffer.data(), static_cast<size_t>(n)});
      if (readers[i].received.size() < n_tokens) continue;
      polls[i].fd = -1;
      --n_open;
    }
  }
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double quantile(const std::vector<double>& sorted, double q) {
  return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
}

struct Outcome {
  double events_per_s;
  double cpu_us_per_event;        // engine, server and clients together
  std::vector<double> delays_ms;  // sorted
};

Outcome measure(const Options& options, double rate) {
  const testing::ByteTokenizer tokenizer;
  const auto format = chat::ChatFormat::from_source("{{ messages[0].content }}", "<s>", "</s>");
  StepEngine engine(options, rate);
  auto server = server::Server::start({.engine = engine,
                                       .tokenizer = tokenizer,
                                       .chat_format = format,
                                       .model = {.name = "bench"},
                                       .sampling_defaults = {}},
                                      {.port = 0, .limits = {}});
  if (!server) std::abort();
  std::vector<Reader> readers(static_cast<size_t>(options.n_connections));
  for (Reader& reader : readers) reader.fd = connect_to((*server)->port());
  const double cpu_before = cpu_seconds();
  const auto begin = Clock::now();
  for (const Reader& reader : readers) ask(reader, options);
  read_all(readers, static_cast<size_t>(options.n_tokens));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double n = static_cast<double>(options.n_connections) * options.n_tokens;
  Outcome outcome{.events_per_s = n / seconds, .cpu_us_per_event = (cpu_seconds() - cpu_before) / n * 1e6};
  for (Reader& reader : readers) close(reader.fd);
  (*server)->stop(1000);
  // Every engine step gives all requests their tokens of one number at about the same time, so that it does not matter
  // which connection belongs to which request.
  for (size_t i = 0; i < readers.size(); ++i) {
    for (size_t token = 0; token < readers[i].received.size(); ++token) {
      const auto delay = readers[i].received[token] - engine.sent_at(i, token);
      outcome.delays_ms.push_back(std::chrono::duration<double, std::milli>(delay).count());
    }
  }
  std::ranges::sort(outcome.delays_ms);
  return outcome;
}

int run(int argc, char** argv) {
  Options options;
  if (argc > 1) options.n_connections = std::atoi(argv[1]);
  if (argc > 2) options.n_tokens = std::atoi(argv[2]);
  if (argc > 3) options.rate = std::atof(argv[3]);
  if (argc > 4) options.path = argv[4];
  spdlog::set_level(spdlog::level::warn);
  fmt::print("{}: {} connections, {} tokens each, {} hardware threads for engine, server and clients\n", options.path,
             options.n_connections, options.n_tokens, std::thread::hardware_concurrency());
  for (int round = 0; round < 3; ++round) {
    const Outcome fast = measure(options, 0);
    fmt::print("as fast as they are read: {:.0f} events/s, {:.1f} us of processor time each\n", fast.events_per_s,
               fast.cpu_us_per_event);
    const Outcome paced = measure(options, options.rate);
    fmt::print("at {:.0f} events/s ({:.0f} reached): delay ms p50 {:.2f} p90 {:.2f} p99 {:.2f} max {:.2f}, {:.1f} us\n",
               options.rate, paced.events_per_s, quantile(paced.delays_ms, 0.5), quantile(paced.delays_ms, 0.9),
               quantile(paced.delays_ms, 0.99), paced.delays_ms.back(), paced.cpu_us_per_event);
  }
  return 0;
}

}  // namespace
}  // namespace tempo9

int main(int argc, char** argv) { return tempo9::run(argc, argv); }
