// A small blocking HTTP client over a raw socket, for tests that care about bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tempo9::testing {

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;                 // without chunk framing
  std::vector<std::string> chunks;  // as they were framed; empty for an answer with a length
  bool is_complete = false;         // false: the connection closed in the middle

  // Empty when there is none. Case does not matter.
  std::string header(std::string_view name) const;
};

// The data of each event of an SSE body; comments are kept as ": …".
std::vector<std::string> sse_events(std::string_view body);

class HttpClient {
 public:
  explicit HttpClient(uint16_t port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // False when the server no longer takes bytes.
  bool send(std::string_view bytes);
  // A request with Host, Content-Length and the further header lines, each ending in \r\n.
  bool request(std::string_view method, std::string_view path, std::string_view body = {},
               std::string_view headers = {});
  // The next response. `head_only` for answers to HEAD. Interim 100 responses are skipped and counted.
  HttpReply read_reply(bool head_only = false);
  // Status line and headers only; then read_chunk for what follows.
  HttpReply read_head();
  // The next chunk of a chunked body; nothing at its end, or when the connection closed.
  std::optional<std::string> read_chunk();
  // Waits for the server to close; false when it sends bytes instead, or stays open for `kPatience`.
  bool is_closed_by_server();

  void half_close();
  void close();
  // Closes with a reset instead of a FIN.
  void reset();
  int n_interim() const { return n_interim_; }

 private:
  bool fill();
  std::optional<std::string> read_line();
  std::optional<std::string> read_bytes(size_t n);

  int fd_ = -1;
  std::string buffer_;
  int n_interim_ = 0;
};

// One request on a connection of its own.
HttpReply http_request(uint16_t port, std::string_view method, std::string_view path, std::string_view body = {},
                       std::string_view headers = {});

}  // namespace tempo9::testing
