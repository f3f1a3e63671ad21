// Calls of declared tools, and the cache of compiled grammars.
#include "grammar/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "grammar/cache.h"
#include "grammar/support.h"

namespace tempo9::grammar {
namespace {

using testing::allows;
using testing::Json;

const CallSyntax kHermes = {.begin = "<tool_call>\n{\"name\": \"",
                            .arguments_begin = "\", \"arguments\": ",
                            .end = "}\n</tool_call>",
                            .between = "\n"};
const CallSyntax kMistral = {.first = "[TOOL_CALLS][",
                             .begin = "{\"name\": \"",
                             .arguments_begin = "\", \"arguments\": ",
                             .end = "}",
                             .between = ", ",
                             .last = "]"};

std::vector<ToolSignature> two_tools() {
  const Json city = Json::parse(R"({"type": "object", "properties": {"city": {"$ref": "#/$defs/name"}},
                                    "required": ["city"], "$defs": {"name": {"type": "string"}}})");
  const Json sum = Json::parse(R"({"type": "object", "properties": {"of": {"type": "array", "items":
                                   {"$ref": "#/$defs/name"}}}, "$defs": {"name": {"type": "integer"}}})");
  return {{"weather", city}, {"sum", sum, /*is_strict=*/true}};
}

std::shared_ptr<const Grammar> compile(std::span<const ToolSignature> tools, const CallSyntax& syntax) {
  auto grammar = compile_tool_calls(tools, syntax);
  EXPECT_TRUE(grammar) << grammar.error().message();
  return grammar ? *grammar : nullptr;
}

const std::string kWeather = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
const std::string kSum = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"of\":[1,2]}}\n</tool_call>";

TEST(ToolCalls, AreOfDeclaredToolsWithTheirArguments) {
  const auto grammar = compile(two_tools(), kHermes);
  EXPECT_TRUE(allows(grammar, kWeather));
  EXPECT_TRUE(allows(grammar, kSum + "\n" + kWeather + "\n" + kSum));
  for (const char* text : {"", "<tool_call>\n{\"name\": \"other\"", "{\"name\": \"sum\"",
                           "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"city\"",
                           "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"of\":[\"a",
                           "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}"}) {
    EXPECT_FALSE(allows(grammar, text)) << text;
  }
  Matcher matcher(grammar);
  EXPECT_FALSE(matcher.can_end());
  EXPECT_FALSE(matcher.accept(kWeather + " and more"));
}

TEST(ToolCalls, MayBeLimitedToOneAndToOneTool) {
  CallSyntax one = kHermes;
  one.allows_several = false;
  EXPECT_TRUE(allows(compile(two_tools(), one), kSum));
  EXPECT_FALSE(allows(compile(two_tools(), one), kSum + "\n" + kSum));
  const auto named = compile(std::vector{two_tools()[1]}, kHermes);
  EXPECT_TRUE(allows(named, kSum));
  EXPECT_FALSE(allows(named, kWeather));
}

TEST(ToolCalls, MayStandInAList) {
  const auto grammar = compile(two_tools(), kMistral);
  const std::string sum = R"({"name": "sum", "arguments": {}})";
  EXPECT_TRUE(allows(grammar, "[TOOL_CALLS][" + sum + "]"));
  EXPECT_TRUE(allows(grammar, "[TOOL_CALLS][" + sum + ", " + sum + "]"));
  EXPECT_FALSE(allows(grammar, "[TOOL_CALLS][]"));
  EXPECT_FALSE(allows(grammar, "[TOOL_CALLS][" + sum));
}

TEST(ToolCalls, FaultsNameTheTool) {
  std::vector<ToolSignature> tools = two_tools();
  tools[1].parameters["properties"]["of"]["type"] = "list";
  EXPECT_EQ(compile_tool_calls(tools, kHermes).error().message(),
            "tool sum: schema #/properties/of/type: \"list\" is no type");
  tools[1].parameters = Json{{"type", "object"}, {"minProperties", 1}};
  EXPECT_EQ((*compile_tool_calls(tools, kHermes))->not_enforced(),
            (std::vector<std::string>{"tool sum #: minProperties"}));
  EXPECT_EQ(compile_tool_calls({}, kHermes).error().message(), "there is no tool to call");
}

TEST(GrammarCache, CompilesOnceAndForgetsTheOldest) {
  GrammarCache cache(2);
  int n_compiled = 0;
  const auto get = [&](const std::string& key) {
    return *cache.get(key, [&] {
      ++n_compiled;
      return Grammar::compile(Json::object());
    });
  };
  const auto first = get("a");
  EXPECT_EQ(get("a"), first);
  get("b");
  get("a");
  get("c");  // b goes
  EXPECT_EQ(n_compiled, 3);
  EXPECT_EQ(get("a"), first);
  EXPECT_EQ(n_compiled, 3);
  get("b");
  EXPECT_EQ(n_compiled, 4);
  EXPECT_FALSE(cache.get("d", [] { return Grammar::compile(Json(3)); }));
}

TEST(GrammarCache, MayBeUsedByThreads) {
  GrammarCache cache(3);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(cache.get(std::to_string(i % 5), [] { return Grammar::compile(Json::object()); }));
      }
    });
  }
}

}  // namespace
}  // namespace tempo9::grammar
