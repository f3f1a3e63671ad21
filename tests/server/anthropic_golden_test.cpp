// Exchanges on /v1/messages replayed: tests/goldens/http/anthropic, explained in its README.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "server/anthropic_support.h"

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

fs::path folder() { return fs::path(T9_SOURCE_DIR) / "tests/goldens/http/anthropic"; }

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Ids are random.
std::string without_ids(const std::string& text) {
  return std::regex_replace(text, std::regex("(msg|toolu|req)_[0-9A-Za-z]{20,}"), "$1_ID");
}

bool renews() { return std::getenv("T9_RENEW_GOLDENS") != nullptr; }

// Compares with the file, or writes it anew.
void expect_text(const std::string& text, const fs::path& path) {
  if (renews()) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read_text(path)) << path;
}

class AnthropicGoldenTest : public AnthropicTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    chat_format_ = chat::ChatFormat::from_source(kTemplate, "<s>", "</s>");
    restart({});
    exchange_ = Json::parse(read_text(folder() / (GetParam() + ".json")));
    service_.set_context_length(exchange_.value("context", 200'000));
    if (exchange_.contains("model")) play(exchange_["model"]);
  }

  void play(const Json& model) {
    std::vector<engine::Event> events;
    for (const Json& text : model["texts"]) {
      events.push_back(text_event(text));
      events.back().tokens = {1};
    }
    const bool is_cut = model["finish"] == "length";
    events.push_back(last_event(is_cut ? engine::FinishReason::kLength : engine::FinishReason::kStop,
                                {.prompt_tokens = model["usage"]["prompt_tokens"],
                                 .cached_tokens = model["usage"]["cached_tokens"],
                                 .completion_tokens = model["usage"]["completion_tokens"]}));
    service_.play(std::move(events));
  }

  fs::path path(const char* ending) const { return folder() / (GetParam() + ending); }

  Json exchange_;
};

TEST_P(AnthropicGoldenTest, IsAnsweredAsRecorded) {
  const std::string body = exchange_["request"].dump();
  const HttpReply whole = ask(body);
  const HttpReply streamed = ask_streamed(body);
  EXPECT_EQ(whole.status, exchange_.contains("model") ? 200 : 400);
  EXPECT_EQ(streamed.status, whole.status);
  expect_text(without_ids(Json::parse(whole.body).dump(1)) + "\n", path(".reply.json"));
  if (!exchange_.contains("model")) return;
  expect_text(without_ids(streamed.body), path(".reply.sse"));
  expect_text(tokenizer_.decode(service_.next_stream()->request.prompt, true) + "\n", path(".prompt.txt"));
}

std::vector<std::string> exchanges() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder())) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".json") && !name.ends_with(".reply.json")) names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  return std::regex_replace(info.param, std::regex("-"), "_");
}

INSTANTIATE_TEST_SUITE_P(Exchanges, AnthropicGoldenTest, ::testing::ValuesIn(exchanges()), test_name);

}  // namespace
}  // namespace tempo9::testing
