// A request to an HTTP server whose answer is read as it arrives: what `tempo9 chat` speaks. No TLS: the servers are
// local ones.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tempo9::cli {

struct HttpAddress {
  std::string host;
  std::string port;
};

// "http://host:port", with or without a path, which is left out. Errors: kInvalidInput, with what is wrong.
Result<HttpAddress> parse_http_address(std::string_view url);

// One request on a connection of its own, which destruction closes: the server then ends the answer.
class HttpStream {
 public:
  // `body` empty: GET, otherwise POST of JSON. Errors: kIo when nobody listens there.
  static Result<HttpStream> send(const HttpAddress& address, std::string_view path, std::string_view body);
  HttpStream(HttpStream&&) noexcept;
  HttpStream& operator=(HttpStream&&) noexcept;
  ~HttpStream();

  // What has arrived of the body since the last call, at least one byte; nothing at its end. Waits for it. Errors:
  // kCancelled once `interrupt_fd` (-1: none) can be read, kIo when the connection ends before the body does.
  Result<std::optional<std::string>> read(int interrupt_fd = -1);
  // All that is left of it.
  Result<std::string> read_all(int interrupt_fd = -1);
  // Of the answer; 0 before the first read.
  unsigned status() const;

 private:
  struct Connection;
  explicit HttpStream(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace tempo9::cli
