// One client's connection: requests in, answers out, one after the other.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http/answer.h"
#include "server/http/registry.h"
#include "server/limits.h"

namespace tempo9::server::http {

// What all connections of a server share. Outlives them.
struct ConnectionContext {
  Handler& handler;
  const HttpLimits& limits;
  std::string own_name;  // the machine's hostname
};

// Everything runs on the strand that is the socket's executor; drain() and abort() may be called from any thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  // `socket` has a strand for its executor.
  static void start(Socket socket, const ConnectionContext& context, const std::shared_ptr<Registry>& registry);

  // No further requests: closes now when idle, after the answer under way otherwise.
  void drain();
  // As drain, and the answer under way ends now.
  void abort();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  template <class T = void>
  using Awaitable = boost::asio::awaitable<T>;

  Connection(Socket socket, const ConnectionContext& context);

  Awaitable<> run();
  // One request and its answer. False: close.
  Awaitable<bool> serve_one();
  // Waits for the first byte of the next request. False: none will come.
  Awaitable<bool> wait_for_request();
  Awaitable<std::optional<Error>> read_head(Parser& parser);
  Awaitable<std::optional<Error>> read_body(Parser& parser);
  Awaitable<bool> send_answer(std::unique_ptr<Answer> answer);
  // Says no to a request whose body, if any, is not going to be read. Arguments of these are locals of the caller:
  // g++ 12 destroys an aggregate temporary in a co_await expression twice.
  Awaitable<> turn_down(const Error& error);
  Awaitable<> send_refusal(Response& response);
  // Sleeps until something happened that the sending loop has to look at; gives the bytes, if any, that are due now
  // although the answer has none.
  Awaitable<std::string> wait_for_answer(Answer& answer);
  Awaitable<bool> write(const std::string& bytes);
  Awaitable<> linger();

  // Reads what the client sends while an answer is made: pipelined requests are kept, a closed connection is noticed.
  void watch_client();
  void unwatch_client();
  void on_readable();
  void on_half_closed();
  void client_is_gone();
  void wake();

  void arm_deadline(std::chrono::milliseconds timeout);
  void disarm_deadline();
  Request make_request(const Parser& parser) const;
  void add_head(std::string& out, Response& response, bool is_whole);

  Socket socket_;
  const ConnectionContext& context_;
  std::optional<Registry::Entry> entry_;
  boost::beast::flat_buffer buffer_;
  std::string client_;

  // The request being answered, without its body, and how its answer is sent.
  Request request_;
  bool is_head_request_ = false;
  bool is_http_1_0_ = false;
  bool keeps_alive_ = false;
  Framing framing_ = Framing::kContentLength;
  bool head_sent_ = false;

  boost::asio::steady_timer wake_timer_;
  boost::asio::steady_timer deadline_;
  std::chrono::steady_clock::time_point last_write_;
  uint64_t watch_ = 0;  // number of the current watch; completions of older ones are ignored
  bool is_watching_ = false;
  bool woken_ = false;
  bool is_idle_ = false;
  bool timed_out_ = false;
  bool probe_due_ = false;  // the client has closed its side: find out whether it still listens
  bool gone_ = false;

  // Set by any thread, at once: an answer whose head is written after drain() says that the connection closes, also
  // when the strand was busy meanwhile.
  std::atomic<bool> draining_ = false;
  std::atomic<bool> aborting_ = false;
};

}  // namespace tempo9::server::http
