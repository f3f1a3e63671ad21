// The collection of model texts: every case of every dialect, for several ways of cutting the text.
#include <gtest/gtest.h>

#include "chat/template_support.h"
#include "chat/tools/parse_support.h"
#include "support/data.h"

namespace tempo9::chat::tools {
namespace {

using namespace testing;
using chat::testing::read_json;

Answer expected_answer(const Json& expect) {
  Answer answer{.reasoning = expect["reasoning"], .content = expect["content"], .calls = {}};
  for (const Json& call : expect["calls"]) answer.calls.push_back({call["name"], call["arguments_json"]});
  answer.is_incomplete = expect["incomplete"];
  return answer;
}

class ToolCases : public ::testing::TestWithParam<const Dialect*> {};

TEST_P(ToolCases, AreReadAsExpectedHoweverTheyAreCut) {
  const Json file = read_json(tempo9::testing::golden_path("toolcases/") + std::string(GetParam()->name) + ".json");
  ASSERT_GE(file["cases"].size(), 20u);
  for (const Json& item : file["cases"]) {
    const Json& tools = item.contains("tools") ? item["tools"] : file["tools"];
    ParseCase c{.dialect = GetParam(),
                .text = item["text"],
                .tools = std::make_shared<ToolSet>(tools.get<std::vector<Json>>()),
                .start = item.value("start", "maybe") == "reasoning" ? Start::kInReasoning : Start::kMaybeReasoning,
                .end = item.value("end", "stop") == "length" ? EndReason::kLength : EndReason::kStop};
    const Answer expected = expected_answer(item["expect"]);
    for (const size_t chunk : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, c.text.size() + 1}) {
      Answer answer = parse_chunked(c, chunk);
      answer.is_over = false;
      EXPECT_EQ(answer, expected) << item["name"] << " in pieces of " << chunk;
      if (answer != expected) break;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDialects, ToolCases, ::testing::ValuesIn(all_dialects()), [](const auto& param_info) {
  std::string name(param_info.param->name);
  std::erase(name, '-');
  return name;
});

}  // namespace
}  // namespace tempo9::chat::tools
