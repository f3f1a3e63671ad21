// The transport: routes, limits, framing, disconnects, stopping. What the bodies say is the dialects' tests' subject.
#include <fmt/format.h>

#include <thread>

#include "server/server_fixture.h"

namespace tempo9::testing {
namespace {

using engine::FinishReason;

server::HttpLimits short_limits() {
  server::HttpLimits limits;
  limits.header_bytes = 4096;
  limits.body_bytes = 100'000;
  limits.linger_timeout = std::chrono::milliseconds(200);
  return limits;
}

constexpr std::string_view kChat = "/v1/chat/completions";

TEST_F(ServerTest, ServesThePlainRoutes) {
  const HttpReply root = get("/");
  EXPECT_EQ(root.status, 200);
  EXPECT_EQ(root.header("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_NE(root.body.find("tempo9"), std::string::npos);
  EXPECT_NE(root.body.find("tiny"), std::string::npos);
  const HttpReply page = http_request(port(), "GET", "/", {}, "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
  EXPECT_EQ(page.header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("<title>tempo9"), std::string::npos);
  EXPECT_EQ(get("/health").body, R"({"status":"ok"})");
  EXPECT_NE(get("/metrics").body.find("\ntempo9_requests_running 0\n"), std::string::npos);
  EXPECT_EQ(get("/v1/models/?limit=1000").status, 200);
}

TEST_F(ServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  for (const char* path : {"/", "/v1/models", "/v1/models/a/b:c", "/health"}) {
    HttpClient client(port());
    client.request("HEAD", path);
    const HttpReply head = client.read_reply(true);
    EXPECT_EQ(head.status, 200) << path;
    EXPECT_NE(head.header("Content-Length"), "");
    client.request("GET", "/health");
    EXPECT_EQ(client.read_reply().body, R"({"status":"ok"})") << "a body after HEAD would be read as the next response";
  }
}

TEST_F(ServerTest, UnknownPathsAnswer404InTheShapeOfTheirPrefix) {
  const HttpReply openai = post("/v1/nope", "{}");
  EXPECT_EQ(openai.status, 404);
  const Json error = parse(openai.body)["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["code"], "route_not_found");
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_NE(error["message"].get<std::string>().find("POST /v1/chat/completions"), std::string::npos);
  EXPECT_TRUE(openai.header("x-request-id").starts_with("req_"));

  const HttpReply ollama = get("/api/nope");
  EXPECT_EQ(ollama.status, 404);
  EXPECT_TRUE(parse(ollama.body)["error"].is_string());
  EXPECT_NE(ollama.header("Content-Type").find("application/json"), std::string::npos);

  const HttpReply anthropic = post("/v1/messages/batches?beta=true", "{}");
  EXPECT_EQ(anthropic.status, 404);
  EXPECT_EQ(parse(anthropic.body)["type"], "error");
  EXPECT_EQ(parse(anthropic.body)["error"]["type"], "not_found_error");
  EXPECT_EQ(parse(anthropic.body)["request_id"], anthropic.header("request-id"));
}

TEST_F(ServerTest, WrongMethodsAnswer405WithAllow) {
  const HttpReply reply = get(kChat);
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("Allow"), "POST");
  EXPECT_EQ(parse(reply.body)["error"]["code"], "method_not_allowed");
  EXPECT_EQ(post("/v1/models", "{}").header("Allow"), "GET, HEAD");
  EXPECT_EQ(http_request(port(), "BREW", "/health").status, 405);
}

TEST_F(ServerTest, EmbeddingsAnswer501InEachDialect) {
  const HttpReply openai = post("/v1/embeddings", "{}");
  EXPECT_EQ(openai.status, 501);
  EXPECT_EQ(openai.header("x-should-retry"), "false");
  EXPECT_EQ(openai.body,
            R"({"error":{"message":"Embeddings are not supported by this server.","type":"invalid_request_error",)"
            R"("param":null,"code":"unsupported_endpoint"}})");
  for (const char* path : {"/api/embed", "/api/embeddings"}) {
    const HttpReply ollama = post(path, "{}");
    EXPECT_EQ(ollama.status, 501);
    EXPECT_EQ(ollama.body, R"({"error":"embeddings are not supported by this server"})");
  }
}

TEST_F(ServerTest, ForeignHostsAndOriginsAreRefusedBeforeRouting) {
  service_.answer_with({"x"});
  const auto with = [&](std::string_view headers) {
    HttpClient client(port());
    client.send(fmt::format("POST /v1/chat/completions HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{}", headers,
                            chat_body().size(), chat_body()));
    return client.read_reply();
  };
  for (const char* headers : {"Host: evil.example\r\n", "Host: localhost\r\nOrigin: https://evil.example\r\n",
                              "Host: localhost\r\nOrigin: null\r\n",
                              "Host: localhost\r\nOrigin: https://evil.example\r\nContent-Type: text/plain\r\n"}) {
    const HttpReply reply = with(headers);
    EXPECT_EQ(reply.status, 403) << headers;
    EXPECT_EQ(reply.body, "");
    EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "") << headers;
  }
  EXPECT_EQ(service_.n_submitted(), 0u);
  const HttpReply local = with("Host: localhost:11435\r\nOrigin: http://localhost:3000\r\n");
  EXPECT_EQ(local.status, 200);
  EXPECT_EQ(local.header("Access-Control-Allow-Origin"), "http://localhost:3000");
  EXPECT_EQ(local.header("Vary"), "Origin");
  EXPECT_EQ(local.header("Access-Control-Allow-Credentials"), "");
  EXPECT_EQ(with("").status, 200) << "no Host at all";
}

TEST_F(ServerTest, Preflight) {
  const HttpReply reply = http_request(port(), "OPTIONS", kChat, {},
                                       "Origin: tauri://localhost\r\nAccess-Control-Request-Method: POST\r\n"
                                       "Access-Control-Request-Headers: authorization,x-stainless-os\r\n"
                                       "Access-Control-Request-Private-Network: true\r\n");
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.header("Access-Control-Allow-Origin"), "tauri://localhost");
  EXPECT_EQ(reply.header("Access-Control-Allow-Methods"), "GET, POST, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(reply.header("Access-Control-Allow-Headers"), "authorization,x-stainless-os");
  EXPECT_EQ(reply.header("Access-Control-Max-Age"), "600");
  EXPECT_EQ(reply.header("Access-Control-Allow-Private-Network"), "true");
  EXPECT_EQ(http_request(port(), "OPTIONS", kChat, {}, "Origin: https://evil.example\r\n").status, 403);
  const HttpReply plain = http_request(port(), "OPTIONS", kChat);
  EXPECT_EQ(plain.status, 204);
  EXPECT_EQ(plain.header("Allow"), "POST, OPTIONS");
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  service_.answer_with({"one ", "answer"});
  HttpClient client(port());
  const std::string body = chat_body();
  std::string bytes;
  for (int i = 0; i < 5; ++i) {
    bytes +=
        fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}", kChat, body.size(), body);
    bytes += "GET /v1/models/m" + std::to_string(i) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  }
  client.send(bytes);
  for (int i = 0; i < 5; ++i) {
    const HttpReply chat_reply = client.read_reply();
    EXPECT_EQ(parse(chat_reply.body)["choices"][0]["message"]["content"], "one answer");
    EXPECT_EQ(parse(client.read_reply().body)["id"], "m" + std::to_string(i));
  }
}

TEST_F(ServerTest, ReadsChunkedBodies) {
  service_.answer_with({"x"});
  HttpClient client(port());
  const std::string body = chat_body();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (size_t i = 0; i < body.size(); i += 7) {
    const std::string part = body.substr(i, 7);
    client.send(fmt::format("{:x}\r\n{}\r\n", part.size(), part));
  }
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.read_reply().status, 200);
}

TEST_F(ServerTest, AnswersExpectContinue) {
  service_.answer_with({"x"});
  HttpClient client(port());
  const std::string body = chat_body();
  client.send(fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                          kChat, body.size()));
  std::thread sender([&] { client.send(body); });
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_EQ(client.n_interim(), 1);
  sender.join();
}

TEST_F(ServerTest, ContentTypeIsNotLookedAt) {
  service_.answer_with({"x"});
  EXPECT_EQ(post(kChat, chat_body(), "Content-Type: application/x-www-form-urlencoded\r\n").status, 200);
}

TEST_F(ServerTest, EncodedBodiesAnswer415) {
  EXPECT_EQ(post(kChat, chat_body(), "Content-Encoding: gzip\r\n").status, 415);
  service_.answer_with({"x"});
  EXPECT_EQ(post(kChat, chat_body(), "Content-Encoding: identity\r\n").status, 200);
}

TEST_F(ServerTest, BodiesUpToTheLimitAreReadAndLargerOnesAnswer413) {
  restart(short_limits());
  service_.answer_with({"x"});
  const size_t overhead = chat_body({}, "").size();
  EXPECT_EQ(chat(chat_body({}, std::string(3000, 'a'))).status, 200);
  // Read in full, and too long a prompt.
  EXPECT_EQ(parse(chat(chat_body({}, std::string(100'000 - overhead, 'a'))).body)["error"]["code"],
            "context_length_exceeded");
  const HttpReply announced = chat(chat_body({}, std::string(100'001 - overhead, 'a')));
  EXPECT_EQ(announced.status, 413);
  EXPECT_EQ(parse(announced.body)["error"]["code"], "body_too_large");

  HttpClient chunked(port());
  chunked.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20 && chunked.send("2000\r\n" + std::string(0x2000, 'a') + "\r\n"); ++i) {
  }
  EXPECT_EQ(chunked.read_reply().status, 413);
}

TEST_F(ServerTest, HeadersOverTheLimitAnswer431) {
  restart(short_limits());
  const HttpReply reply = get("/health", "X-Long: " + std::string(8000, 'x') + "\r\n");
  EXPECT_EQ(reply.status, 431);
  EXPECT_TRUE(parse(reply.body).contains("error"));
}

TEST_F(ServerTest, WhatIsNotHttpAnswers400AndTheServerLives) {
  for (const char* bytes :
       {"hello\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x01\x01\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n"}) {
    HttpClient client(port());
    client.send(bytes);
    EXPECT_EQ(client.read_reply().status, 400) << bytes;
    EXPECT_TRUE(client.is_closed_by_server());
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ServerTest, ASlowRequestIsGivenUpWith408) {
  server::HttpLimits limits = short_limits();
  limits.header_timeout = std::chrono::milliseconds(50);
  limits.body_progress_timeout = std::chrono::milliseconds(50);
  restart(limits);
  HttpClient slow_head(port());
  slow_head.send("POST /v1/chat/completions HTTP/1.1\r\nHost: loc");
  EXPECT_EQ(slow_head.read_reply().status, 408);
  EXPECT_TRUE(slow_head.is_closed_by_server());
  HttpClient slow_body(port());
  slow_body.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{\"mess");
  EXPECT_EQ(slow_body.read_reply().status, 408);
  EXPECT_TRUE(slow_body.is_closed_by_server());
}

TEST_F(ServerTest, IdleConnectionsAreClosed) {
  server::HttpLimits limits;
  limits.idle_timeout = std::chrono::milliseconds(50);
  restart(limits);
  HttpClient client(port());
  client.request("GET", "/health");
  EXPECT_EQ(client.read_reply().status, 200);
  EXPECT_TRUE(client.is_closed_by_server());
}

TEST_F(ServerTest, ConnectionsOverTheLimitAreTurnedAwayWith503) {
  server::HttpLimits limits = short_limits();
  limits.connections = 3;
  restart(limits);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(port()));
    clients.back()->request("GET", "/health");
    EXPECT_EQ(clients.back()->read_reply().status, 200);
  }
  HttpClient extra(port());
  extra.request("GET", "/health");
  const HttpReply refused = extra.read_reply();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_EQ(parse(refused.body)["error"]["type"], "server_error");
  clients[0]->request("GET", "/health");
  EXPECT_EQ(clients[0]->read_reply().status, 200);
}

TEST_F(ServerTest, HttpOneZeroClientsGetABodyUntilClose) {
  service_.answer_with({"a", "b"});
  HttpClient client(port());
  const std::string body = chat_body(R"("stream":true)");
  client.send(fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kChat, body.size(), body));
  const HttpReply reply = client.read_reply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("Transfer-Encoding"), "");
  EXPECT_EQ(sse_events(reply.body).back(), "[DONE]");
}

// Disconnects: streaming or not, queued or running, by FIN or by reset.
struct Departure {
  bool streaming;
  bool has_output;
  bool by_reset;
};
class DisconnectTest : public ServerTest, public ::testing::WithParamInterface<Departure> {};

TEST_P(DisconnectTest, CancelsTheSequence) {
  const Departure how = GetParam();
  HttpClient client(port());
  client.request("POST", kChat, chat_body(how.streaming ? R"("stream":true)" : ""));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  if (how.has_output) stream->push(text_event("some text"));
  if (how.streaming) {
    EXPECT_EQ(client.read_head().status, 200);
    EXPECT_TRUE(client.read_chunk());
    if (how.has_output) {
      EXPECT_TRUE(client.read_chunk());
    }
  }
  EXPECT_FALSE(stream->is_cancelled());
  how.by_reset ? client.reset() : client.close();
  EXPECT_TRUE(stream->wait_cancelled());
}

INSTANTIATE_TEST_SUITE_P(Ways, DisconnectTest,
                         ::testing::Values(Departure{true, false, false}, Departure{true, true, false},
                                           Departure{false, false, false}, Departure{false, true, false},
                                           Departure{true, true, true}, Departure{false, false, true}),
                         [](const auto& way) {
                           return fmt::format("{}{}{}", way.param.streaming ? "Stream" : "Whole",
                                              way.param.has_output ? "Running" : "Queued",
                                              way.param.by_reset ? "Reset" : "Fin");
                         });

TEST_F(ServerTest, AClientThatClosesOnlyItsSendingSideIsAnswered) {
  for (const bool streaming : {false, true}) {
    HttpClient client(port());
    client.request("POST", kChat, chat_body(streaming ? R"("stream":true)" : ""));
    client.half_close();
    const auto stream = service_.next_stream();
    ASSERT_TRUE(stream);
    // The server asks whether anybody still listens: an interim response, or a sign of life in the stream.
    HttpReply reply;
    if (streaming) {
      EXPECT_EQ(client.read_head().status, 200);
      EXPECT_NE(client.read_chunk()->find("assistant"), std::string::npos);
      EXPECT_EQ(client.read_chunk(), ": keep-alive\n\n");
    }
    stream->push(text_event("still here"));
    stream->push(last_event(FinishReason::kStop));
    if (streaming) {
      EXPECT_NE(client.read_chunk()->find("still here"), std::string::npos);
    } else {
      reply = client.read_reply();
      EXPECT_EQ(parse(reply.body)["choices"][0]["message"]["content"], "still here");
    }
    EXPECT_FALSE(stream->is_cancelled());
  }
}

TEST_F(ServerTest, ADisconnectDuringPreparationNeverReachesTheEngineOrIsCancelled) {
  for (int i = 0; i < 20; ++i) {
    HttpClient client(port());
    client.request("POST", kChat, chat_body());
    client.reset();
  }
  HttpClient last(port());
  last.request("POST", kChat, chat_body(R"("seed":77)"));
  for (;;) {
    const auto stream = service_.next_stream();
    ASSERT_TRUE(stream);
    if (stream->request.sampling.seed) break;
    EXPECT_TRUE(stream->wait_cancelled());
  }
}

TEST_F(ServerTest, AStreamThatIsSilentSendsKeepAlives) {
  server::HttpLimits limits;
  limits.keep_alive_interval = std::chrono::milliseconds(20);
  restart(limits);
  HttpClient client(port());
  client.request("POST", kChat, chat_body(R"("stream":true)"));
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_NE(client.read_chunk()->find("assistant"), std::string::npos);
  EXPECT_EQ(client.read_chunk(), ": keep-alive\n\n");
  EXPECT_EQ(client.read_chunk(), ": keep-alive\n\n");
}

TEST_F(ServerTest, ASlowReaderHoldsTheStreamBackInsteadOfFillingMemory) {
  HttpClient client(port());
  client.request("POST", kChat, chat_body(R"("stream":true)"));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  // Far more than the kernel's buffers hold; the rest stays with the engine, whose stream is bounded.
  constexpr size_t kEvents = 200;
  for (size_t i = 0; i < kEvents; ++i) stream->push(text_event(std::string(100'000, '#')));
  EXPECT_EQ(get("/health").status, 200);
  stream->push(last_event(FinishReason::kStop));
  EXPECT_EQ(client.read_head().status, 200);
  EXPECT_GT(stream->n_unread(), kEvents / 4);
  size_t n_marks = 0;
  while (const auto chunk = client.read_chunk()) n_marks += static_cast<size_t>(std::ranges::count(*chunk, '#'));
  EXPECT_EQ(n_marks, kEvents * 100'000);
}

TEST_F(ServerTest, AReaderThatStopsForGoodIsCutOff) {
  server::HttpLimits limits;
  limits.write_timeout = std::chrono::milliseconds(100);
  restart(limits);
  HttpClient client(port());
  client.request("POST", kChat, chat_body(R"("stream":true)"));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  for (int i = 0; i < 400; ++i) stream->push(text_event(std::string(100'000, '#')));
  EXPECT_TRUE(stream->wait_cancelled());
}

TEST_F(ServerTest, StoppingEndsStreamsInTheDialectsWay) {
  HttpClient streaming(port());
  streaming.request("POST", kChat, chat_body(R"("stream":true)"));
  const auto stream = service_.next_stream();
  HttpClient whole(port());
  whole.request("POST", kChat, chat_body());
  const auto other = service_.next_stream();
  HttpClient idle(port());
  idle.request("GET", "/health");
  EXPECT_EQ(idle.read_reply().status, 200);
  ASSERT_TRUE(stream && other);
  stream->push(text_event("half an ans"));

  std::thread stopper([&] { server_->stop(5000); });
  EXPECT_TRUE(idle.is_closed_by_server());
  // What the engine does when it is stopped.
  stream->push(failed_event(Error(ErrorCode::kCancelled, "The server is stopping.")));
  other->push(failed_event(Error(ErrorCode::kCancelled, "The server is stopping.")));

  const HttpReply reply = streaming.read_reply();
  EXPECT_TRUE(reply.is_complete);
  const auto events = sse_events(reply.body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(parse(events[events.size() - 2])["error"]["type"], "server_error");
  const HttpReply refused = whole.read_reply();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Connection"), "close");
  EXPECT_TRUE(streaming.is_closed_by_server());
  stopper.join();
  EXPECT_EQ(get("/health").status, 0) << "nobody listens any more";
}

TEST_F(ServerTest, StoppingDoesNotWaitForAnEngineThatHangs) {
  HttpClient streaming(port());
  streaming.request("POST", kChat, chat_body(R"("stream":true)"));
  const auto stream = service_.next_stream();
  ASSERT_TRUE(stream);
  server_->stop(20);
  const HttpReply reply = streaming.read_reply();
  EXPECT_TRUE(reply.is_complete);
  EXPECT_EQ(sse_events(reply.body).back(), "[DONE]");
  EXPECT_TRUE(stream->wait_cancelled());
}

TEST_F(ServerTest, APortInUseIsSaidSo) {
  const auto second = server::Server::start(
      {.engine = service_, .tokenizer = tokenizer_, .chat_format = chat_format_, .model = {}, .sampling_defaults = {}},
      {.port = port(), .limits = {}});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message().find(std::to_string(port())), std::string::npos);
  EXPECT_NE(second.error().message().find("--port"), std::string::npos);
}

TEST_F(ServerTest, HealthFailsWhenWorkIsQueuedAndNoStepAdvances) {
  service_.set_stats({.running = 1, .last_step_age_s = 31.0});
  const HttpReply reply = get("/health");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.body, R"({"status":"stalled"})");
  service_.set_stats({.running = 1, .last_step_age_s = 5.0});
  EXPECT_EQ(get("/health").status, 200);
}

}  // namespace
}  // namespace tempo9::testing
