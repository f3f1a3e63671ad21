#include "server/http/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/http/read.hpp>
#include <utility>

#include "server/http/access.h"
#include "server/http/errors.h"
#include "server/ids.h"

namespace tempo9::server::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

Error error_of_parser(error_code ec, const HttpLimits& limits) {
  if (ec == beast::http::error::header_limit || ec == beast::http::error::buffer_overflow) {
    return headers_too_large(limits.header_bytes);
  }
  if (ec == beast::http::error::body_limit) return body_too_large(limits.body_bytes);
  return bad_request(ec.message());
}

bool is_parser_error(error_code ec) {
  return ec.category() == make_error_code(beast::http::error::end_of_stream).category();
}

}  // namespace

void Connection::start(Socket socket, const ConnectionContext& context, const std::shared_ptr<Registry>& registry) {
  const std::shared_ptr<Connection> connection(new Connection(std::move(socket), context));
  connection->entry_.emplace(Registry::add(registry, connection));
  asio::co_spawn(
      connection->socket_.get_executor(), [connection] { return connection->run(); },
      [](std::exception_ptr failure) {
        if (!failure) return;
        try {
          std::rethrow_exception(failure);
        } catch (const std::exception& e) {
          spdlog::error("event=connection_failed what=\"{}\"", e.what());
        }
      });
}

Connection::Connection(Socket socket, const ConnectionContext& context)
    : socket_(std::move(socket)),
      context_(context),
      buffer_(context.limits.header_bytes + context.limits.pipelined_bytes),
      wake_timer_(socket_.get_executor()),
      deadline_(socket_.get_executor()) {}

void Connection::drain() {
  draining_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->is_idle_) self->socket_.cancel();
  });
}

void Connection::abort() {
  draining_ = true;
  aborting_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->is_idle_) self->socket_.cancel();
    self->wake();
  });
}

asio::awaitable<void> Connection::run() {
  error_code ec;
  const auto peer = socket_.remote_endpoint(ec);
  client_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  socket_.set_option(asio::ip::tcp::no_delay(true), ec);
  socket_.non_blocking(true, ec);
  bool open = !ec;
  while (open && !draining_) open = co_await serve_one();
  disarm_deadline();
  socket_.shutdown(Socket::shutdown_both, ec);
  socket_.close(ec);
}

asio::awaitable<bool> Connection::serve_one() {
  if (!co_await wait_for_request()) co_return false;

  Parser parser;
  parser.header_limit(static_cast<uint32_t>(context_.limits.header_bytes));
  parser.body_limit(context_.limits.body_bytes);
  const std::optional<Error> head_error = co_await read_head(parser);
  if (gone_) co_return false;
  request_ = make_request(parser);
  is_head_request_ = request_.method == "HEAD";
  is_http_1_0_ = parser.get().version() < 11;
  keeps_alive_ = parser.get().keep_alive();
  if (!may_ask(request_, context_.own_name)) {
    Response forbidden{.status = 403, .headers = {}, .body = {}};
    co_await send_refusal(forbidden);
    co_return false;
  }
  if (head_error) {
    co_await turn_down(*head_error);
    co_return false;
  }
  const std::string encoding(request_.header("Content-Encoding"));
  if (!encoding.empty() && !equals_ignoring_case(encoding, "identity")) {
    const Error error = unsupported_encoding(encoding);
    co_await turn_down(error);
    co_return false;
  }
  if (equals_ignoring_case(request_.header("Expect"), "100-continue") && !parser.is_done()) {
    const std::string go_on(kContinue);
    if (!co_await write(go_on)) co_return false;
  }
  if (const std::optional<Error> body_error = co_await read_body(parser)) {
    if (!gone_) co_await turn_down(*body_error);
    co_return false;
  }
  if (gone_) co_return false;
  Request request = request_;
  request.body = std::move(parser.get().body());
  co_return co_await send_answer(context_.handler.handle(std::move(request)));
}

asio::awaitable<bool> Connection::wait_for_request() {
  if (buffer_.size() > 0) co_return true;
  is_idle_ = true;
  arm_deadline(context_.limits.idle_timeout);
  auto [ec, n] = co_await socket_.async_read_some(buffer_.prepare(4096), kAwait);
  disarm_deadline();
  is_idle_ = false;
  if (ec) co_return false;
  buffer_.commit(n);
  co_return true;
}

// Sets gone_ when the client left in the middle.
asio::awaitable<std::optional<Error>> Connection::read_head(Parser& parser) {
  arm_deadline(context_.limits.header_timeout);
  auto [ec, n] = co_await beast::http::async_read_header(socket_, buffer_, parser, kAwait);
  disarm_deadline();
  if (!ec) co_return std::nullopt;
  if (timed_out_) co_return request_timed_out();
  gone_ = !is_parser_error(ec) || ec == beast::http::error::end_of_stream || ec == beast::http::error::partial_message;
  co_return error_of_parser(ec, context_.limits);
}

asio::awaitable<std::optional<Error>> Connection::read_body(Parser& parser) {
  const auto end = std::chrono::steady_clock::now() + context_.limits.body_timeout;
  while (!parser.is_done()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) co_return request_timed_out();
    arm_deadline(std::min(left, context_.limits.body_progress_timeout));
    auto [ec, n] = co_await beast::http::async_read_some(socket_, buffer_, parser, kAwait);
    disarm_deadline();
    if (!ec) continue;
    if (timed_out_) co_return request_timed_out();
    gone_ = !is_parser_error(ec) || ec == beast::http::error::partial_message;
    co_return error_of_parser(ec, context_.limits);
  }
  co_return std::nullopt;
}

Request Connection::make_request(const Parser& parser) const {
  const auto& message = parser.get();
  Request request;
  request.id = "req_" + random_hex(24);
  request.client = client_;
  request.method = std::string(message.method_string());
  request.path = path_of_target({message.target().data(), message.target().size()});
  for (const auto& field : message) {
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
  }
  return request;
}

void Connection::add_head(std::string& out, Response& response, bool is_whole) {
  for (Header& header : cors_headers(request_)) response.headers.push_back(std::move(header));
  keeps_alive_ = keeps_alive_ && !draining_;
  framing_ = is_whole ? Framing::kContentLength : is_http_1_0_ ? Framing::kUntilClose : Framing::kChunked;
  if (framing_ == Framing::kUntilClose) keeps_alive_ = false;
  out += serialize_head(response, framing_, keeps_alive_);
  head_sent_ = true;
}

asio::awaitable<bool> Connection::send_answer(std::unique_ptr<Answer> answer) {
  head_sent_ = false;
  probe_due_ = false;
  last_write_ = std::chrono::steady_clock::now();
  answer->notify([weak = weak_from_this(), executor = socket_.get_executor()] {
    asio::post(executor, [weak] {
      if (const auto self = weak.lock()) self->wake();
    });
  });
  watch_client();
  bool is_last = false;
  while (!is_last && !gone_) {
    std::string bytes;
    std::optional<Piece> piece;
    if (aborting_) {
      piece = answer->abort(Error(ErrorCode::kCancelled, "The server is stopping."));
    } else {
      piece = answer->poll();
    }
    if (piece) {
      is_last = piece->is_last;
      if (piece->head) {
        add_head(bytes, *piece->head, is_last);
        if (is_last) piece->bytes = std::move(piece->head->body);
      }
      if (!is_head_request_) {
        const bool is_chunked = framing_ == Framing::kChunked;
        bytes += is_chunked ? serialize_chunk(piece->bytes) : piece->bytes;
        if (is_chunked && is_last) bytes += kLastChunk;
      }
    } else {
      bytes = co_await wait_for_answer(*answer);
    }
    if (!bytes.empty() && !gone_ && !co_await write(bytes)) gone_ = true;
  }
  unwatch_client();
  answer->notify({});
  answer.reset();
  co_return !gone_ && keeps_alive_;
}

asio::awaitable<std::string> Connection::wait_for_answer(Answer& answer) {
  bool silent = false;
  if (!woken_) {
    wake_timer_.expires_at(last_write_ + context_.limits.keep_alive_interval);
    auto [ec] = co_await wake_timer_.async_wait(kAwait);
    silent = !ec;
  }
  woken_ = false;
  if (std::exchange(probe_due_, false)) {
    // A client that is gone answers these bytes with a reset; one that only closed its sending side ignores them.
    if (!head_sent_ && !is_http_1_0_) co_return std::string(kContinue);
    silent = head_sent_;
  }
  if (!silent) co_return "";
  last_write_ = std::chrono::steady_clock::now();
  if (!head_sent_) co_return "";
  std::string sign_of_life = answer.keep_alive();
  if (framing_ == Framing::kChunked) sign_of_life = serialize_chunk(sign_of_life);
  co_return sign_of_life;
}

asio::awaitable<bool> Connection::write(const std::string& bytes) {
  arm_deadline(context_.limits.write_timeout);
  auto [ec, n] = co_await asio::async_write(socket_, asio::buffer(bytes), kAwait);
  disarm_deadline();
  last_write_ = std::chrono::steady_clock::now();
  co_return !ec;
}

asio::awaitable<void> Connection::turn_down(const Error& error) {
  Response refusal = context_.handler.refuse(request_, error);
  co_await send_refusal(refusal);
}

asio::awaitable<void> Connection::send_refusal(Response& response) {
  keeps_alive_ = false;
  std::string bytes;
  add_head(bytes, response, true);
  if (!is_head_request_) bytes += response.body;
  if (co_await write(bytes)) co_await linger();
}

// Closing a socket with unread bytes makes the kernel send a reset, which can destroy the refusal on its way.
asio::awaitable<void> Connection::linger() {
  error_code ec;
  socket_.shutdown(Socket::shutdown_send, ec);
  arm_deadline(context_.limits.linger_timeout);
  while (!ec) {
    buffer_.clear();
    auto [read_ec, n] = co_await socket_.async_read_some(buffer_.prepare(context_.limits.pipelined_bytes), kAwait);
    ec = timed_out_ ? error_code(asio::error::timed_out) : read_ec;
  }
  disarm_deadline();
}

void Connection::watch_client() {
  is_watching_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this(), watch = watch_](error_code ec) {
    if (watch != self->watch_) return;
    self->is_watching_ = false;
    if (!ec) self->on_readable();
  });
}

void Connection::unwatch_client() {
  ++watch_;
  if (std::exchange(is_watching_, false)) socket_.cancel();
}

void Connection::on_readable() {
  const size_t room = context_.limits.pipelined_bytes - std::min(context_.limits.pipelined_bytes, buffer_.size());
  if (room == 0) return;  // the client is sending ahead; it is read again once this answer is out
  error_code ec;
  const size_t n = socket_.read_some(buffer_.prepare(room), ec);
  buffer_.commit(n);
  if (!ec || ec == asio::error::would_block) return watch_client();
  if (ec == asio::error::eof) return on_half_closed();
  client_is_gone();
}

void Connection::on_half_closed() {
  probe_due_ = true;
  wake();
  is_watching_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this(), watch = watch_](error_code ec) {
    if (watch != self->watch_) return;
    self->is_watching_ = false;
    if (!ec) self->client_is_gone();
  });
}

void Connection::client_is_gone() {
  gone_ = true;
  socket_.cancel();
  wake();
}

void Connection::wake() {
  woken_ = true;
  wake_timer_.cancel();
}

void Connection::arm_deadline(std::chrono::milliseconds timeout) {
  timed_out_ = false;
  deadline_.expires_after(timeout);
  deadline_.async_wait([weak = weak_from_this()](error_code ec) {
    const auto self = weak.lock();
    // Disarming moves the expiry away: a completion that was already queued then finds it in the future.
    if (ec || !self || self->deadline_.expiry() > std::chrono::steady_clock::now()) return;
    self->timed_out_ = true;
    self->socket_.cancel();
  });
}

void Connection::disarm_deadline() { deadline_.expires_at(std::chrono::steady_clock::time_point::max()); }

}  // namespace tempo9::server::http
