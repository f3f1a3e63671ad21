// Exchanges with each dialect replayed: tests/goldens/http, explained in its README.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "server/server_fixture.h"
#include "support/data.h"

namespace tempo9::testing {
namespace {

namespace fs = std::filesystem;

// Shows everything that a template is given.
constexpr std::string_view kTemplate =
    "{# <tool_call> #}{% for t in tools or [] %}<turn>tool {{ t.function | tojson }}{% endfor %}"
    "{% for m in messages %}<turn>{{ m.role }}{% if m.tool_call_id %} {{ m.tool_call_id }}{% endif %}:"
    "{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}{{ m.content }}"
    "{% for c in m.tool_calls %}[{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
    "{% endfor %}<turn>assistant{{ ' thinking' if enable_thinking }}:";

struct DialectFolder {
  std::string_view name;
  std::string_view route;       // where an exchange names no other
  std::string_view stream_end;  // of the file with the streamed reply
};

constexpr std::array<DialectFolder, 4> kFolders = {{{"anthropic", "/v1/messages?beta=true", ".reply.sse"},
                                                    {"completions", "/v1/completions", ".reply.sse"},
                                                    {"ollama", "/api/chat", ".reply.ndjson"},
                                                    {"responses", "/v1/responses", ".reply.sse"}}};

fs::path root() { return testing::golden_path("http"); }

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Ids are random, and times are what they are.
std::string without_chance(std::string text) {
  text = std::regex_replace(text, std::regex("\\b(msg|toolu|req|cmpl|call|resp|rs|fc|ctc)([_-])[0-9A-Za-z]{8,}"),
                            "$1$2ID");
  text = std::regex_replace(text, std::regex(R"re(("created_at": ?)"[^"]*")re"), "$1\"TIME\"");
  text = std::regex_replace(text, std::regex(R"re(("(created_at|completed_at)": ?)[0-9]+)re"), "$1\"TIME\"");
  return std::regex_replace(text, std::regex(R"re(("(created|total_duration)": ?)[0-9]+)re"), "$01TIME");
}

bool renews() { return std::getenv("T9_RENEW_GOLDENS") != nullptr; }

// Compares with the file, or writes it anew.
void expect_text(const std::string& text, const fs::path& path) {
  if (renews()) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read_text(path)) << path;
}

struct Exchange {
  DialectFolder folder;
  std::string name;

  fs::path path(std::string_view ending) const { return root() / folder.name / (name + std::string(ending)); }
};

void PrintTo(const Exchange& exchange, std::ostream* out) { *out << exchange.folder.name << "/" << exchange.name; }

class ExchangeTest : public ServerTest, public ::testing::WithParamInterface<Exchange> {
 protected:
  void SetUp() override {
    chat_format_ = chat::ChatFormat::from_source(kTemplate, "<s>", "</s>");
    restart({});
    exchange_ = Json::parse(read_text(GetParam().path(".json")));
    service_.set_context_length(exchange_.value("context", 200'000));
    if (exchange_.contains("model")) play(exchange_["model"]);
  }

  void play(const Json& model) {
    std::vector<engine::Event> events;
    for (const Json& text : model["texts"]) {
      events.push_back(text_event(text));
      events.back().tokens = {1};
      if (model.value("logprobs", false)) {
        events.back().logprobs = {{.chosen = {1, -0.5f}, .top = {{97, -0.5f}, {98, -2.0f}}, .bytes = text}};
      }
    }
    const Json& usage = model["usage"];
    if (model["finish"] == "failed") {
      events.push_back(failed_event(Error(ErrorCode::kInternal, "engine failed")));
    } else {
      events.push_back(
          last_event(model["finish"] == "length" ? engine::FinishReason::kLength : engine::FinishReason::kStop,
                     {.prompt_tokens = usage["prompt_tokens"],
                      .cached_tokens = usage["cached_tokens"],
                      .completion_tokens = usage["completion_tokens"],
                      .prefill_ms = usage.value("prefill_ms", 0.0),
                      .decode_ms = usage.value("decode_ms", 0.0)}));
    }
    service_.play(std::move(events));
  }

  HttpReply ask(bool is_streamed) {
    Json request = exchange_["request"];
    request["stream"] = is_streamed;
    return post(exchange_.value("route", GetParam().folder.route), request.dump());
  }

  Json exchange_;
};

TEST_P(ExchangeTest, IsAnsweredAsRecorded) {
  const HttpReply whole = ask(false);
  const HttpReply streamed = ask(true);
  const int status = exchange_.value("status", exchange_.contains("model") ? 200 : 400);
  EXPECT_EQ(whole.status, status);
  expect_text(without_chance(Json::parse(whole.body).dump(1)) + "\n", GetParam().path(".reply.json"));
  if (!exchange_.contains("model")) {
    EXPECT_EQ(streamed.status, status);
    EXPECT_EQ(without_chance(streamed.body), without_chance(whole.body));
    return;
  }
  EXPECT_EQ(streamed.status, 200);
  expect_text(without_chance(streamed.body), GetParam().path(GetParam().folder.stream_end));
  expect_text(tokenizer_.decode(service_.next_stream()->request.prompt, true) + "\n", GetParam().path(".prompt.txt"));
}

std::vector<Exchange> exchanges() {
  std::vector<Exchange> all;
  for (const DialectFolder& folder : kFolders) {
    for (const auto& entry : fs::directory_iterator(root() / folder.name)) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".json") && !name.ends_with(".reply.json")) all.push_back({folder, entry.path().stem()});
    }
  }
  std::ranges::sort(all, {}, [](const Exchange& e) { return e.path(""); });
  return all;
}

std::string test_name(const ::testing::TestParamInfo<Exchange>& info) {
  return std::regex_replace(std::string(info.param.folder.name) + "_" + info.param.name, std::regex("-"), "_");
}

INSTANTIATE_TEST_SUITE_P(Recorded, ExchangeTest, ::testing::ValuesIn(exchanges()), test_name);

}  // namespace
}  // namespace tempo9::testing
