// The status page's own routes: what it reads, and the end of a request by it.
#include <gtest/gtest.h>

#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

class Status : public ServerTest {
 protected:
  Json status() {
    const HttpReply reply = get("/status");
    EXPECT_EQ(reply.status, 200);
    return parse(reply.body);
  }
  // Waits until the page would show so many requests under way.
  Json wait_active(size_t n) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    Json active = status()["active"];
    while (active.size() != n && std::chrono::steady_clock::now() < end) active = status()["active"];
    EXPECT_EQ(active.size(), n);
    return active;
  }
};

TEST_F(Status, BrowsersGetAPageThatNeedsNothingFromElsewhere) {
  const HttpReply page = get("/", "Accept: text/html,application/xhtml+xml\r\n");
  EXPECT_EQ(page.header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_TRUE(page.header("Content-Security-Policy").starts_with("default-src 'none'"));
  EXPECT_LE(page.body.size(), size_t{60} << 10);
  for (const char* part : {"src=\"http", "href=\"http", "@import", "url("}) {
    EXPECT_EQ(page.body.find(part), std::string::npos) << part;
  }
  EXPECT_TRUE(get("/").header("Content-Type").starts_with("text/plain"));
}

TEST_F(Status, TellsTheModel) {
  const Json json = status();
  EXPECT_EQ(json["model"]["name"], "tiny");
  EXPECT_EQ(json["model"]["context_length"], service_.context_length());
  EXPECT_EQ(json["active"], Json::array());
}

TEST_F(Status, EnergyIsThereOnlyWhereTheMachineReportsIt) {
  EXPECT_NE(get("/metrics").body.find("\ntempo9_energy_reported 0\n"), std::string::npos);
  EXPECT_EQ(get("/metrics").body.find("tempo9_energy_joules_total"), std::string::npos);
  engine::ServiceStats stats;
  stats.energy_j = 2.5;
  service_.set_stats(stats);
  EXPECT_NE(get("/metrics").body.find("\ntempo9_energy_reported 1\n"), std::string::npos);
  EXPECT_NE(get("/metrics").body.find("\ntempo9_energy_joules_total 2.5\n"), std::string::npos);
}

TEST_F(Status, ARequestIsShownWhileItIsUnderWayAndAfterItsEnd) {
  HttpClient client(port());
  client.request("POST", "/v1/chat/completions", chat_body());
  const auto stream = service_.next_stream();
  ASSERT_NE(stream, nullptr);
  const Json waiting = wait_active(1)[0];
  EXPECT_EQ(waiting["path"], "/v1/chat/completions");
  engine::Event event = text_event("a");
  event.tokens = {1, 2};
  stream->push(event);
  stream->push(last_event(engine::FinishReason::kLength, {.prompt_tokens = 9,
                                                          .cached_tokens = 4,
                                                          .completion_tokens = 2,
                                                          .queue_ms = 1,
                                                          .prefill_ms = 2,
                                                          .energy_j = 0.5}));
  EXPECT_EQ(client.read_reply().status, 200);
  wait_active(0);
  const Json ended = status()["ended"];
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0]["finish"], "length");
  EXPECT_EQ(ended[0]["cached_tokens"], 4);
  EXPECT_EQ(ended[0]["ttft_ms"], 3.0);
  EXPECT_EQ(ended[0]["energy_j"], 0.5);
}

TEST_F(Status, ARequestThatIsCancelledThereTellsItsClientSo) {
  HttpClient client(port());
  client.request("POST", "/v1/chat/completions", chat_body());
  const auto stream = service_.next_stream();
  ASSERT_NE(stream, nullptr);
  Json active = wait_active(1);
  while (active[0]["state"] != "waiting") active = wait_active(1);
  EXPECT_EQ(post("/status/cancel/" + active[0]["id"].get<std::string>(), "").status, 200);
  EXPECT_TRUE(stream->wait_cancelled());
  stream->push(failed_event(Error(ErrorCode::kCancelled, "the client has gone")));
  EXPECT_NE(client.read_reply().body.find("cancelled on the server's status page"), std::string::npos);
  wait_active(0);
}

TEST_F(Status, OnlyWhatIsUnderWayCanBeCancelledAndNotByAForeignPage) {
  EXPECT_EQ(post("/status/cancel/req_none", "").status, 404);
  EXPECT_EQ(get("/status/cancel/req_none").status, 405);
  EXPECT_EQ(post("/status/cancel/req_none", "", "Origin: https://example.org\r\n").status, 403);
}

}  // namespace
}  // namespace tempo9::testing
