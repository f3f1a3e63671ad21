// Random answers of the grammars of all families, read by the families' own parsers: whatever is drawn is calls of
// declared tools with arguments by their schemas.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "chat/tools/parse_support.h"
#include "grammar/matcher.h"
#include "grammar/support.h"
#include "server/answer_syntax.h"
#include "server/json.h"
#include "server/output_constraint.h"

namespace tempo9::server {
namespace {

using chat::tools::Start;
using ParsedAnswer = chat::tools::testing::Answer;

// Parameters that are written in every way there is.
const char* const kParameters[] = {
    R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1,
        "maximum": 14}}, "required": ["city"]})",
    R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 12}, "b": {"enum": ["x", "y z"]},
        "c": {"type": "string", "pattern": "^[a-z]{2,4}$"}, "d": {"type": ["string", "null"]}},
        "required": ["b", "c"], "additionalProperties": false})",
    R"({"type": "object", "properties": {"list": {"type": "array", "items": {"type": "string", "minLength": 1},
        "minItems": 1, "maxItems": 3}, "on": {"type": "boolean"}, "x": {"type": "number"}}, "required": ["list"]})",
    R"({"type": "object", "properties": {"o": {"$ref": "#/$defs/node"}, "k": {"const": 3}}, "required": ["o", "k"],
        "additionalProperties": false, "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v"],
        "additionalProperties": false}}})",
    R"({"type": "object", "properties": {"u": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "t": {"type": "string", "minLength": 3}}, "required": ["u", "t"]})",
};

std::vector<Json> declared_tools() {
  std::vector<Json> tools;
  for (const char* parameters : kParameters) {
    const std::string name = "tool_" + std::to_string(tools.size());
    tools.push_back({{"type", "function"},
                     {"function", {{"name", name}, {"parameters", Json::parse(parameters)}, {"strict", true}}}});
  }
  return tools;
}

// Bytes, pieces of JSON, and of markup that a parser could mistake.
const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out = grammar::testing::token_texts();
    for (const char* text : {"<tool_call>",
                             "</tool_call>",
                             "<function=",
                             "</function>",
                             "<parameter=",
                             "</parameter>",
                             "\n</parameter>\n",
                             "<think>",
                             "</think>",
                             "[TOOL_CALLS]",
                             "[ARGS]",
                             "[/THINK]",
                             "<|tool_call>",
                             "<tool_call|>",
                             "<|\"|>",
                             "<|channel|>",
                             "<|message|>",
                             "<|end|>",
                             "<|start|>",
                             "<|channel>thought\n",
                             "<channel|>",
                             "tool_",
                             "{\"name\": \"tool_",
                             "}\n</tool_call>",
                             "<|\"|>}",
                             "}<tool_call|>",
                             "<|tool_response>",
                             "<turn|>",
                             "xyz"}) {
      out.emplace_back(text);
    }
    return out;
  }();
  return all;
}

const grammar::TokenTrie& trie() {
  static const grammar::TokenTrie made(static_cast<int64_t>(texts().size()),
                                       [](int32_t id) -> std::string_view { return texts()[static_cast<size_t>(id)]; });
  return made;
}

// Long tokens more often than chance would have it: they are what brings an answer on.
int32_t draw(const grammar::TokenMask& mask, std::mt19937& random) {
  std::vector<int32_t> allowed, long_ones;
  for (int32_t id = 0; id < trie().n_tokens(); ++id) {
    if (!mask.has(id)) continue;
    allowed.push_back(id);
    if (texts()[static_cast<size_t>(id)].size() > 3) long_ones.push_back(id);
  }
  if (allowed.empty()) return -1;
  const std::vector<int32_t>& from = !long_ones.empty() && random() % 2 == 0 ? long_ones : allowed;
  return from[random() % from.size()];
}

// Empty when the answer has not come to an end.
std::string walk(const engine::Constraint& constraint, std::mt19937& random) {
  grammar::Matcher matcher(constraint.grammar);
  grammar::TokenMask mask(trie().n_tokens());
  std::string text;
  for (int step = 0; step < 900; ++step) {
    if (matcher.can_end() && (matcher.must_end() || random() % 3 == 0)) return text;
    matcher.allowed_tokens(trie(), mask);
    const int32_t id = draw(mask, random);
    EXPECT_GE(id, 0) << "a dead end behind " << text;
    if (id < 0) return "";
    EXPECT_TRUE(matcher.accept(texts()[static_cast<size_t>(id)])) << text;
    text += texts()[static_cast<size_t>(id)];
  }
  return "";
}

struct Setting {
  const chat::tools::Dialect* dialect;
  Start start;
  bool may_reason;
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const chat::tools::Dialect* dialect : chat::tools::all_dialects()) {
    all.push_back({dialect, Start::kMaybeReasoning, false});
    all.push_back({dialect, Start::kMaybeReasoning, true});
    if (!dialect->reasoning_opener.empty()) all.push_back({dialect, Start::kInReasoning, false});
  }
  return all;
}

class ConstrainedCalls : public ::testing::TestWithParam<Setting> {
 protected:
  engine::Constraint make(const ChatRequest& request) {
    auto constraint =
        make_constraint(request, {*GetParam().dialect, GetParam().start, GetParam().may_reason}, grammars_);
    EXPECT_TRUE(constraint) << constraint.error().message();
    return constraint ? *constraint : engine::Constraint{};
  }
  ParsedAnswer parse(const ChatRequest& request, const std::string& text) {
    chat::tools::AnswerParser parser(*GetParam().dialect,
                                     {.tools = std::make_shared<chat::tools::ToolSet>(request.conversation.tools),
                                      .start = GetParam().start,
                                      .content_is_json = request.output_schema.has_value()});
    ParsedAnswer answer;
    chat::tools::testing::join(answer, parser.feed(text));
    chat::tools::testing::join(answer, parser.finish(chat::tools::EndReason::kStop));
    return answer;
  }
  static void expect_valid_calls(const ParsedAnswer& answer, const std::string& text) {
    EXPECT_FALSE(answer.is_incomplete) << text;
    for (const auto& [name, arguments] : answer.calls) {
      ASSERT_TRUE(name.starts_with("tool_") && name.size() == 6) << name << " in " << text;
      const Json schema = Json::parse(kParameters[name.back() - '0']);
      const Json value = Json::parse(arguments, nullptr, /*allow_exceptions=*/false);
      ASSERT_FALSE(value.is_discarded()) << arguments << " in " << text;
      ASSERT_TRUE(grammar::testing::is_valid(schema, value, schema)) << arguments << " in " << text;
    }
  }

  grammar::GrammarCache grammars_{4};
  std::mt19937 random_{1};
};

TEST_P(ConstrainedCalls, ThatAreForcedAreCallsAndNothingElse) {
  ChatRequest request;
  request.conversation.tools = declared_tools();
  request.requires_call = true;
  const engine::Constraint constraint = make(request);
  int n_whole = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = walk(constraint, random_);
    if (text.empty()) continue;
    ++n_whole;
    const ParsedAnswer answer = parse(request, text);
    ASSERT_FALSE(answer.calls.empty()) << text;
    EXPECT_EQ(answer.content, "") << text;
    expect_valid_calls(answer, text);
  }
  EXPECT_GE(n_whole, 5);
}

TEST_P(ConstrainedCalls, OrContentByTheSchema) {
  ChatRequest request;
  request.conversation.tools = declared_tools();
  request.output_schema = OutputSchema{.schema = Json::parse(kParameters[1]), .is_strict = false};
  const engine::Constraint constraint = make(request);
  int n_calls = 0, n_contents = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string text = walk(constraint, random_);
    if (text.empty()) continue;
    const ParsedAnswer answer = parse(request, text);
    expect_valid_calls(answer, text);
    if (!answer.calls.empty()) {
      ++n_calls;
      EXPECT_EQ(answer.content, "") << text;
      continue;
    }
    ++n_contents;
    const Json value = Json::parse(answer.content, nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(value.is_discarded()) << text;
    ASSERT_TRUE(grammar::testing::is_valid(request.output_schema->schema, value, value)) << text;
  }
  EXPECT_GT(n_calls + n_contents, 5);
}

TEST_P(ConstrainedCalls, OfStrictToolsAreHeldInFreeText) {
  ChatRequest request;
  request.conversation.tools = declared_tools();
  const engine::Constraint constraint = make(request);
  for (int i = 0; i < 60; ++i) {
    const std::string text = walk(constraint, random_);
    const ParsedAnswer answer = parse(request, text);
    for (const auto& call : answer.calls) {
      if (!call.name.starts_with("tool_")) return;  // harmony's built-in recipients
    }
    expect_valid_calls(answer, text);
  }
}

TEST_P(ConstrainedCalls, BehindAThoughtThatIsCutOff) {
  if (GetParam().start != Start::kInReasoning && !GetParam().may_reason) return;
  const chat::tools::Dialect& dialect = *GetParam().dialect;
  const std::string open = GetParam().start == Start::kInReasoning ? "" : answer_syntax(dialect.name).reasoning.open;
  const std::string text = open + "Let me see" + std::string(dialect.reasoning_cut);
  ChatRequest request;
  request.output_schema = OutputSchema{.schema = Json::parse(R"({"const":5})"), .is_strict = false};
  grammar::Matcher matcher(make(request).grammar);
  ASSERT_TRUE(matcher.accept(text)) << text;
  EXPECT_TRUE(matcher.accept("5"));
  const ParsedAnswer answer = parse(request, text + "5");
  EXPECT_EQ(answer.reasoning, "Let me see") << text;
  EXPECT_EQ(answer.content, "5") << text;
}

INSTANTIATE_TEST_SUITE_P(All, ConstrainedCalls, ::testing::ValuesIn(settings()), [](const auto& made) {
  std::string name(made.param.dialect->name);
  std::erase(name, '-');
  return name + (made.param.start == Start::kInReasoning ? "InReasoning" : made.param.may_reason ? "MayReason" : "");
});

}  // namespace
}  // namespace tempo9::server
