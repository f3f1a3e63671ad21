#include "server/http/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace tempo9::server::http {

namespace {

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

bool is_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// "name:80" → "name", "[::1]:80" → "[::1]". Nothing when what follows the name is not a port.
std::optional<std::string_view> strip_port(std::string_view host) {
  size_t end = host.size();
  if (host.starts_with('[')) {
    const size_t bracket = host.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    end = bracket + 1;
  } else if (const size_t colon = host.find(':'); colon != std::string_view::npos) {
    end = colon;
  }
  const std::string_view rest = host.substr(end);
  if (!rest.empty() && (rest[0] != ':' || !is_digits(rest.substr(1)))) return std::nullopt;
  return host.substr(0, end);
}

bool is_local_ipv4(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return false;
  const uint32_t ip = ntohl(address.s_addr);
  const auto in_net = [ip](uint32_t net, int bits) { return (ip >> (32 - bits)) == (net >> (32 - bits)); };
  return ip == 0 || in_net(0x7F000000, 8) || in_net(0x0A000000, 8) || in_net(0xAC100000, 12) ||
         in_net(0xC0A80000, 16) || in_net(0xA9FE0000, 16);
}

bool is_local_ipv6(const std::string& text) {
  in6_addr address{};
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return false;
  const uint8_t* b = address.s6_addr;
  const bool is_unique_local = (b[0] & 0xFE) == 0xFC;
  const bool is_link_local = b[0] == 0xFE && (b[1] & 0xC0) == 0x80;
  return IN6_IS_ADDR_LOOPBACK(&address) || is_unique_local || is_link_local;
}

template <size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& list) {
  return std::ranges::find(list, text) != list.end();
}

}  // namespace

bool is_local_host(std::string_view host, std::string_view own_name) {
  const auto bare = strip_port(host);
  if (!bare) return false;
  std::string name = to_lower(*bare);
  if (name.ends_with('.')) name.pop_back();
  if (name.empty() || name == "localhost") return true;
  if (name.starts_with('[')) return name.ends_with(']') && is_local_ipv6(name.substr(1, name.size() - 2));
  if (is_local_ipv4(name)) return true;
  if (!own_name.empty() && name == to_lower(own_name)) return true;
  // Public DNS cannot serve these; container hosts are reached as host.docker.internal.
  return name.ends_with(".localhost") || name.ends_with(".local") || name.ends_with(".internal");
}

bool is_allowed_origin(std::string_view origin) {
  static constexpr std::array<std::string_view, 10> kShellSchemes = {"app",
                                                                     "file",
                                                                     "tauri",
                                                                     "vscode-webview",
                                                                     "vscode-file",
                                                                     "moz-extension",
                                                                     "chrome-extension",
                                                                     "safari-web-extension",
                                                                     "ms-browser-extension",
                                                                     "safari-extension"};
  static constexpr std::array<std::string_view, 4> kLocalHosts = {"localhost", "127.0.0.1", "0.0.0.0", "[::1]"};

  const std::string text = to_lower(origin);
  const size_t separator = text.find("://");
  if (separator == std::string::npos) return false;
  const std::string_view scheme = std::string_view(text).substr(0, separator);
  if (is_one_of(scheme, kShellSchemes)) return true;
  if (scheme != "http" && scheme != "https") return false;
  const auto host = strip_port(std::string_view(text).substr(separator + 3));
  return host && is_one_of(*host, kLocalHosts);
}

bool may_ask(const Request& request, std::string_view own_name) {
  for (const Header& h : request.headers) {
    if (equals_ignoring_case(h.name, "Host") && !is_local_host(h.value, own_name)) return false;
    if (equals_ignoring_case(h.name, "Origin") && !is_allowed_origin(h.value)) return false;
  }
  return true;
}

std::vector<Header> cors_headers(const Request& request) {
  const std::string_view origin = request.header("Origin");
  if (origin.empty() || !is_allowed_origin(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Vary", "Origin"},
          {"Access-Control-Expose-Headers", "x-request-id, request-id"}};
}

std::vector<Header> preflight_headers(const Request& request) {
  std::vector<Header> headers = {{"Access-Control-Allow-Methods", "GET, POST, HEAD, DELETE, OPTIONS"},
                                 {"Access-Control-Max-Age", "600"}};
  if (const auto asked = request.header("Access-Control-Request-Headers"); !asked.empty()) {
    headers.push_back({"Access-Control-Allow-Headers", std::string(asked)});
  }
  if (equals_ignoring_case(request.header("Access-Control-Request-Private-Network"), "true")) {
    headers.push_back({"Access-Control-Allow-Private-Network", "true"});
  }
  return headers;
}

}  // namespace tempo9::server::http
