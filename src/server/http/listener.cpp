#include "server/http/listener.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <thread>
#include <vector>

#include "server/http/connection.h"
#include "server/http/errors.h"

namespace tempo9::server::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
// After the grace time: for the last bytes of aborted answers to be written.
constexpr std::chrono::milliseconds kAbortTimeout{1000};
// Out of file descriptors: a connection has to end before another accept can work.
constexpr std::chrono::milliseconds kAcceptPause{50};

std::string own_hostname() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

// Binds 127.0.0.1:`port` and listens.
Result<void> listen(tcp::acceptor& acceptor, uint16_t port) {
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), port);
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(tcp::acceptor::max_listen_connections, ec);
  if (!ec) return {};
  if (ec == asio::error::address_in_use) {
    return fail(ErrorCode::kIo,
                fmt::format("port {} is in use; choose another with --port (0 takes a free one)", port));
  }
  return fail(ErrorCode::kIo, fmt::format("cannot listen on 127.0.0.1:{}: {}", port, ec.message()));
}

class ListenerImpl : public Listener {
 public:
  ListenerImpl(Handler& handler, const HttpLimits& limits)
      : limits_(limits),
        context_{.handler = handler, .limits = limits_, .own_name = own_hostname()},
        acceptor_(asio::make_strand(io_)) {}

  ~ListenerImpl() override { stop(0); }

  Result<void> open(uint16_t port) {
    T9_TRY_VOID(listen(acceptor_, port));
    error_code ec;
    port_ = acceptor_.local_endpoint(ec).port();
    if (ec) return fail(ErrorCode::kIo, fmt::format("cannot listen on 127.0.0.1:{}: {}", port, ec.message()));
    asio::co_spawn(acceptor_.get_executor(), accept_loop(), asio::detached);
    for (int i = 0; i < kNetworkThreads; ++i) threads_.emplace_back([this] { run_thread(); });
    return {};
  }

  uint16_t port() const override { return port_; }
  size_t n_connections() const override { return registry_->size(); }

  void stop(int grace_ms) override {
    if (threads_.empty()) return;
    asio::post(acceptor_.get_executor(), [this] {
      error_code ec;
      acceptor_.close(ec);
      registry_->for_each([](Connection& connection) { connection.drain(); });
    });
    if (!registry_->wait_until_empty(std::chrono::milliseconds(grace_ms))) {
      registry_->for_each([](Connection& connection) { connection.abort(); });
      registry_->wait_until_empty(kAbortTimeout);
    }
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void run_thread() {
    try {
      io_.run();
    } catch (const std::exception& e) {
      spdlog::error("event=network_thread_failed what=\"{}\"", e.what());
    }
  }

  asio::awaitable<void> accept_loop() {
    while (acceptor_.is_open()) {
      auto [ec, socket] = co_await acceptor_.async_accept(asio::make_strand(io_), kAwait);
      if (!acceptor_.is_open()) break;
      if (ec) {
        asio::steady_timer pause(acceptor_.get_executor(), kAcceptPause);
        co_await pause.async_wait(kAwait);
        continue;
      }
      if (registry_->size() < limits_.connections) {
        Connection::start(std::move(socket), context_, registry_);
      } else if (n_turned_away_ < limits_.turned_away) {
        ++n_turned_away_;
        const auto executor = socket.get_executor();
        asio::co_spawn(executor, turn_away(std::make_shared<tcp::socket>(std::move(socket))), asio::detached);
      }
    }
  }

  // The path, and so the dialect, is not known yet: the OpenAI shape, which most clients read.
  asio::awaitable<void> turn_away(std::shared_ptr<tcp::socket> socket) {
    Response response = context_.handler.refuse(Request{}, too_many_connections(limits_.connections));
    const std::string bytes = serialize_head(response, Framing::kContentLength, false) + response.body;
    co_await asio::async_write(*socket, asio::buffer(bytes), kAwait);
    error_code ec;
    socket->shutdown(tcp::socket::shutdown_send, ec);
    // The client's request is read off, or the reset that closing would send could overtake the response.
    asio::steady_timer deadline(socket->get_executor(), limits_.linger_timeout);
    deadline.async_wait([socket](error_code timer_ec) {
      error_code ignored;
      if (!timer_ec) socket->cancel(ignored);
    });
    std::array<char, 4096> scratch;
    while (!ec) {
      auto [read_ec, n] = co_await socket->async_read_some(asio::buffer(scratch), kAwait);
      ec = read_ec;
    }
    deadline.cancel();
    --n_turned_away_;
  }

  const HttpLimits limits_;
  const ConnectionContext context_;
  asio::io_context io_{kNetworkThreads};
  tcp::acceptor acceptor_;
  const std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  std::atomic<size_t> n_turned_away_ = 0;
  uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<void> check_port(uint16_t port) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  return listen(acceptor, port);
}

Result<std::unique_ptr<Listener>> Listener::start(uint16_t port, Handler& handler, const HttpLimits& limits) {
  auto listener = std::make_unique<ListenerImpl>(handler, limits);
  T9_TRY_VOID(listener->open(port));
  return listener;
}

}  // namespace tempo9::server::http
