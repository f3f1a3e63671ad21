#include "server/http/access.h"

#include <gtest/gtest.h>

namespace tempo9::server::http {
namespace {

Request request_with(std::vector<Header> headers) {
  Request request;
  request.headers = std::move(headers);
  return request;
}

TEST(HostCheck, AllowsWhatAForeignPageCannotResolve) {
  for (const char* host : {"",
                           "localhost",
                           "LOCALHOST:11435",
                           "localhost.",
                           "localhost.:80",
                           "127.0.0.1",
                           "127.0.0.1:11435",
                           "127.9.8.7",
                           "[::1]",
                           "[::1]:8080",
                           "0.0.0.0",
                           "10.1.2.3:80",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.168.1.20",
                           "169.254.10.10",
                           "[fc00::1]",
                           "[fdab::2]:1",
                           "[fe80::1]",
                           "box",
                           "BOX:11435",
                           "app.localhost",
                           "printer.local",
                           "host.docker.internal",
                           "host.docker.internal:11435"}) {
    EXPECT_TRUE(is_local_host(host, "box")) << host;
  }
}

TEST(HostCheck, RefusesEverythingElse) {
  for (const char* host : {"evil.example",
                           "evil.example:11435",
                           "localhost.evil.example",
                           "127.0.0.1.evil.example",
                           "8.8.8.8",
                           "126.0.0.1",
                           "128.0.0.1",
                           "172.15.0.1",
                           "172.32.0.1",
                           "192.169.0.1",
                           "169.253.0.1",
                           "11.0.0.1",
                           "[2001:db8::1]",
                           "[::2]",
                           "[::1",
                           "[::1]evil",
                           "127.0.0.1:80x",
                           "127.0.0.1@evil.example",
                           "127.1",
                           "0x7f000001",
                           "2130706433",
                           "local",
                           "internal",
                           "localhostx",
                           "notbox",
                           "[::ffff:8.8.8.8]",
                           "[127.0.0.1]",
                           "localhost:80:80"}) {
    EXPECT_FALSE(is_local_host(host, "box")) << host;
  }
  EXPECT_FALSE(is_local_host("box", ""));
}

TEST(OriginCheck, AllowsLocalPagesShellsAndExtensions) {
  for (const char* origin :
       {"http://localhost", "https://localhost", "http://localhost:3000", "HTTP://LOCALHOST:3000", "http://127.0.0.1",
        "http://127.0.0.1:8080", "https://0.0.0.0:1", "http://[::1]", "http://[::1]:5173", "app://obsidian.md",
        "file://", "tauri://localhost", "vscode-webview://1a2b", "vscode-file://vscode-app", "chrome-extension://abc",
        "moz-extension://abc", "safari-extension://abc", "safari-web-extension://abc", "ms-browser-extension://abc"}) {
    EXPECT_TRUE(is_allowed_origin(origin)) << origin;
  }
}

TEST(OriginCheck, RefusesForeignOnes) {
  for (const char* origin :
       {"null", "https://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example",
        "http://evil.example:11435", "http://localhost:80x", "http://localhost/", "http://localhost@evil.example",
        "ftp://localhost", "http://127.0.0.2", "http://192.168.1.2", "localhost", "", "://localhost",
        "xapp://localhost", "http://[::2]"}) {
    EXPECT_FALSE(is_allowed_origin(origin)) << origin;
  }
}

TEST(OriginCheck, EveryHostAndOriginHeaderCounts) {
  EXPECT_TRUE(may_ask(request_with({}), "box"));
  EXPECT_TRUE(may_ask(request_with({{"host", "localhost"}, {"origin", "http://localhost"}}), "box"));
  EXPECT_FALSE(may_ask(request_with({{"Host", "localhost"}, {"Host", "evil.example"}}), "box"));
  EXPECT_FALSE(may_ask(request_with({{"Origin", "http://localhost"}, {"Origin", "https://evil.example"}}), "box"));
  EXPECT_FALSE(may_ask(request_with({{"Host", "localhost"}, {"Origin", ""}}), "box"));
}

}  // namespace
}  // namespace tempo9::server::http
