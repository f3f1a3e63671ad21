#include "server/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>

namespace tempo9::testing {

namespace {

constexpr int kPatienceSeconds = 10;

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i]))) return false;
  }
  return true;
}

}  // namespace

std::string HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

std::vector<std::string> sse_events(std::string_view body) {
  std::vector<std::string> events;
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    std::string_view event = body.substr(0, end);
    if (event.starts_with("data: ")) event.remove_prefix(6);
    events.emplace_back(event);
    body = end == std::string_view::npos ? std::string_view() : body.substr(end + 2);
  }
  return events;
}

HttpClient::HttpClient(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) close();
}

HttpClient::~HttpClient() { close(); }

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

bool HttpClient::request(std::string_view method, std::string_view path, std::string_view body,
                         std::string_view headers) {
  const std::string length = body.empty() ? "" : fmt::format("Content-Length: {}\r\n", body.size());
  return send(fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}{}\r\n{}", method, path, headers, length, body));
}

bool HttpClient::fill() {
  char bytes[16384];
  const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

std::optional<std::string> HttpClient::read_line() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::optional<std::string> HttpClient::read_bytes(size_t n) {
  while (buffer_.size() < n) {
    if (!fill()) return std::nullopt;
  }
  std::string bytes = buffer_.substr(0, n);
  buffer_.erase(0, n);
  return bytes;
}

HttpReply HttpClient::read_head() {
  for (;;) {
    HttpReply reply;
    const auto status_line = read_line();
    if (!status_line || status_line->size() < 12) return reply;
    reply.status = std::atoi(status_line->c_str() + 9);
    for (;;) {
      const auto line = read_line();
      if (!line) return reply;
      if (line->empty()) break;
      const size_t colon = line->find(": ");
      if (colon != std::string::npos) reply.headers.emplace_back(line->substr(0, colon), line->substr(colon + 2));
    }
    if (reply.status != 100) return reply;
    ++n_interim_;
  }
}

std::optional<std::string> HttpClient::read_chunk() {
  const auto size_line = read_line();
  if (!size_line) return std::nullopt;
  const size_t size = std::strtoul(size_line->c_str(), nullptr, 16);
  auto bytes = read_bytes(size);
  if (!bytes || !read_line() || size == 0) return std::nullopt;
  return bytes;
}

HttpReply HttpClient::read_reply(bool head_only) {
  HttpReply reply = read_head();
  if (reply.status == 0) return reply;
  if (head_only || reply.status == 204) {
    reply.is_complete = true;
  } else if (reply.header("Transfer-Encoding") == "chunked") {
    while (const auto size_line = read_line()) {
      const size_t size = std::strtoul(size_line->c_str(), nullptr, 16);
      const auto bytes = read_bytes(size);
      if (!bytes || !read_line()) break;
      if (size == 0) {
        reply.is_complete = true;
        break;
      }
      reply.body += *bytes;
      reply.chunks.push_back(*bytes);
    }
  } else if (const std::string length = reply.header("Content-Length"); !length.empty()) {
    if (auto bytes = read_bytes(std::strtoul(length.c_str(), nullptr, 10))) {
      reply.body = std::move(*bytes);
      reply.is_complete = true;
    }
  } else {
    while (fill()) {
    }
    reply.body = std::exchange(buffer_, {});
    reply.is_complete = true;
  }
  return reply;
}

bool HttpClient::is_closed_by_server() {
  if (!buffer_.empty()) return false;
  char byte = 0;
  const ssize_t n = recv(fd_, &byte, 1, 0);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

void HttpClient::half_close() { shutdown(fd_, SHUT_WR); }

void HttpClient::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void HttpClient::reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

HttpReply http_request(uint16_t port, std::string_view method, std::string_view path, std::string_view body,
                       std::string_view headers) {
  HttpClient client(port);
  client.request(method, path, body, headers);
  return client.read_reply(method == "HEAD");
}

}  // namespace tempo9::testing
