// Clients that are many, slow or large: what they can take from the others has an end.
#include <fmt/format.h>
#include <sys/resource.h>

#include <memory>
#include <vector>

#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

class ManyConnectionsTest : public ServerTest {
 protected:
  // Both ends of a connection are descriptors of this process.
  void SetUp() override {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    ServerTest::SetUp();
    service_.answer_with({"fine"});
  }

  std::vector<std::unique_ptr<HttpClient>> connect(size_t n) {
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (size_t i = 0; i < n; ++i) clients.push_back(std::make_unique<HttpClient>(port()));
    return clients;
  }
  void expect_served() { EXPECT_EQ(parse(chat(chat_body()).body)["choices"][0]["message"]["content"], "fine"); }
};

TEST_F(ManyConnectionsTest, AThousandIdleConnectionsLeaveRoomForOthers) {
  const auto idle = connect(1000);
  expect_served();
  // Each of them is still good.
  for (size_t i = 0; i < idle.size(); i += 100) {
    idle[i]->request("GET", "/health");
    EXPECT_EQ(idle[i]->read_reply().status, 200);
  }
}

TEST_F(ManyConnectionsTest, HeadersThatComeByteByByteAreGivenUp) {
  server::HttpLimits limits;
  limits.header_timeout = std::chrono::milliseconds(300);
  limits.linger_timeout = std::chrono::milliseconds(100);
  restart(limits);
  const auto slow = connect(200);
  for (const auto& client : slow) client->send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nX-a: ");
  expect_served();
  for (const auto& client : slow) {
    client->send("b");
    EXPECT_EQ(client->read_reply().status, 408);
  }
  expect_served();
}

TEST_F(ManyConnectionsTest, BodiesThatStopComingAreGivenUp) {
  server::HttpLimits limits;
  limits.body_progress_timeout = std::chrono::milliseconds(300);
  limits.linger_timeout = std::chrono::milliseconds(100);
  restart(limits);
  const auto slow = connect(50);
  for (const auto& client : slow) {
    client->send("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{\"messages\":");
  }
  expect_served();
  for (const auto& client : slow) {
    const HttpReply reply = client->read_reply();
    EXPECT_EQ(reply.status, 408);
    EXPECT_TRUE(parse(reply.body)["error"].is_string()) << "in the dialect of the route";
  }
}

TEST_F(ManyConnectionsTest, AHundredMegabytesAnswer413) {
  server::HttpLimits limits;
  limits.linger_timeout = kPatience;  // a closed connection would lose the answer while the client still sends
  restart(limits);
  HttpClient declared(port());
  declared.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n");
  EXPECT_EQ(declared.read_reply().status, 413) << "none of it was sent";

  HttpClient chunked(port());
  chunked.send("POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string megabyte(1 << 20, 'x');
  int n_sent = 0;
  while (n_sent < 100 && chunked.send(fmt::format("{:x}\r\n{}\r\n", megabyte.size(), megabyte))) ++n_sent;
  EXPECT_EQ(chunked.read_reply().status, 413);
  expect_served();
}

TEST_F(ManyConnectionsTest, StreamsOfManyClientsAllEnd) {
  std::vector<std::string> texts(50, "word ");
  service_.answer_with(texts);
  const auto clients = connect(200);
  for (const auto& client : clients)
    client->request("POST", "/api/chat", R"({"messages":[{"role":"user","content":"x"}]})");
  for (const auto& client : clients) {
    const HttpReply reply = client->read_reply();
    EXPECT_TRUE(reply.is_complete);
    EXPECT_NE(reply.body.find("\"done\":true"), std::string::npos);
  }
}

}  // namespace
}  // namespace tempo9::testing
