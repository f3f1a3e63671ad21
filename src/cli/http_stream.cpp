#include "cli/http_stream.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tempo9::cli {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

Result<int> connect_to(const HttpAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int problem = getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found); problem != 0) {
    return fail(ErrorCode::kIo, fmt::format("{}: {}", address.host, gai_strerror(problem)));
  }
  int reason = 0;
  int fd = -1;
  for (const addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
    fd = socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (fd >= 0 && connect(fd, one->ai_addr, one->ai_addrlen) == 0) break;
    reason = errno;
    if (fd >= 0) close(std::exchange(fd, -1));
  }
  freeaddrinfo(found);
  if (fd >= 0) return fd;
  return fail(ErrorCode::kIo, fmt::format("http://{}:{}: {}", address.host, address.port, std::strerror(reason)));
}

std::string make_request(const HttpAddress& address, std::string_view path, std::string_view body) {
  const std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n",
                                       body.empty() ? "GET" : "POST", path, address.host, address.port);
  if (body.empty()) return head + "\r\n";
  return fmt::format("{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", head, body.size(), body);
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

struct HttpStream::Connection {
  explicit Connection(int socket) : fd(socket) {
    parser.eager(true);
    parser.body_limit(boost::none);
  }
  ~Connection() { close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // More of the answer into the parser; an error ends the stream.
  Result<void> receive(int interrupt_fd);

  int fd;
  std::string unparsed;
  http::response_parser<http::string_body> parser;
};

Result<void> HttpStream::Connection::receive(int interrupt_fd) {
  std::array<pollfd, 2> wanted = {
      {{.fd = fd, .events = POLLIN, .revents = 0}, {.fd = interrupt_fd, .events = POLLIN, .revents = 0}}};
  if (poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) {
    return fail(ErrorCode::kIo, std::strerror(errno));
  }
  if ((wanted[1].revents & POLLIN) != 0) return fail(ErrorCode::kCancelled, "interrupted");
  if (wanted[0].revents == 0) return {};
  std::array<char, 16384> bytes;
  const ssize_t n = recv(fd, bytes.data(), bytes.size(), 0);
  if (n < 0 && errno == EINTR) return {};
  error_code ec;
  if (n > 0) {
    unparsed.append(bytes.data(), static_cast<size_t>(n));
    unparsed.erase(0, parser.put(boost::asio::buffer(unparsed), ec));
    if (ec == http::error::need_more) return {};
  } else {
    parser.put_eof(ec);
  }
  if (ec) return fail(ErrorCode::kIo, "the server ended the connection in the middle of its answer");
  return {};
}

Result<HttpAddress> parse_http_address(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: only http:// addresses are spoken to", url));
  }
  std::string_view authority = url.substr(kScheme.size());
  authority = authority.substr(0, authority.find('/'));
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.rfind(':');
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  std::string_view host = authority.substr(0, has_port ? colon : authority.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string_view port = has_port ? authority.substr(colon + 1) : "80";
  if (host.empty() || port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: an address is http://HOST:PORT", url));
  }
  return HttpAddress{std::string(host), std::string(port)};
}

HttpStream::HttpStream(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
HttpStream::HttpStream(HttpStream&&) noexcept = default;
HttpStream& HttpStream::operator=(HttpStream&&) noexcept = default;
HttpStream::~HttpStream() = default;

Result<HttpStream> HttpStream::send(const HttpAddress& address, std::string_view path, std::string_view body) {
  T9_TRY(fd, connect_to(address));
  HttpStream stream(std::make_unique<Connection>(fd));
  if (!send_all(fd, make_request(address, path, body))) {
    return fail(ErrorCode::kIo, fmt::format("http://{}:{}: {}", address.host, address.port, std::strerror(errno)));
  }
  return stream;
}

Result<std::optional<std::string>> HttpStream::read(int interrupt_fd) {
  http::response_parser<http::string_body>& parser = connection_->parser;
  for (;;) {
    if (parser.is_header_done() && !parser.get().body().empty()) return std::exchange(parser.get().body(), {});
    if (parser.is_done()) return std::nullopt;
    T9_TRY_VOID(connection_->receive(interrupt_fd));
  }
}

Result<std::string> HttpStream::read_all(int interrupt_fd) {
  std::string all;
  for (;;) {
    T9_TRY(more, read(interrupt_fd));
    if (!more) return all;
    all += *more;
  }
}

unsigned HttpStream::status() const {
  return connection_->parser.is_header_done() ? connection_->parser.get().result_int() : 0;
}

}  // namespace tempo9::cli
