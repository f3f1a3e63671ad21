// A request and a response as the rest of the server sees them: no sockets, no framing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tempo9::server::http {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string id;      // "req_" and 24 hex digits, made here
  std::string client;  // address and port of the connection it came by
  std::string method;
  std::string path;  // still percent-encoded; without query and without one trailing slash
  std::vector<Header> headers;
  std::string body;

  // The first header of that name (case does not matter); empty when there is none.
  std::string_view header(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::vector<Header> headers;
  std::string body;
};

// The path of a request target: query and one trailing slash removed, absolute form ("http://host/path") reduced.
std::string path_of_target(std::string_view target);
// "%2F" → "/". A percent sign without two hex digits stays as it is.
std::string percent_decode(std::string_view text);

bool equals_ignoring_case(std::string_view a, std::string_view b);

// Status line and headers, with the empty line. `framing` headers are written here, not by who made the response.
enum class Framing { kContentLength, kChunked, kUntilClose };
std::string serialize_head(const Response& response, Framing framing, bool keep_alive);
// One chunk of a chunked body; empty bytes give an empty string, as an empty chunk would end the body.
std::string serialize_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace tempo9::server::http
