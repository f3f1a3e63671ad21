// Which grammar the engine is given for response_format and tool_choice.
#include "server/output_constraint.h"

#include <gtest/gtest.h>

#include "grammar/matcher.h"
#include "server/json.h"

namespace tempo9::server {
namespace {

using chat::tools::Start;

bool accepts(const engine::Constraint& constraint, std::string_view text) {
  grammar::Matcher matcher(constraint.grammar);
  return matcher.accept(text) && matcher.can_end();
}

ChatRequest with_tools() {
  ChatRequest request;
  for (const std::string name : {"f", "g"}) {
    const Json parameters = {{"type", "object"}, {"properties", {{"x", {{"type", "integer"}}}}}, {"required", {"x"}}};
    request.conversation.tools.push_back(
        {{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}, {"strict", true}}}});
  }
  request.requires_call = true;
  return request;
}

class OutputConstraintTest : public ::testing::Test {
 protected:
  Result<engine::Constraint> make(const ChatRequest& request, std::string_view dialect,
                                  Start start = Start::kMaybeReasoning) {
    return make_constraint(request, *chat::tools::find_dialect(dialect), start, grammars_);
  }
  grammar::GrammarCache grammars_{4};
};

TEST_F(OutputConstraintTest, NothingAskedIsNothingHeld) {
  const auto constraint = make({}, "harmony");
  ASSERT_TRUE(constraint);
  EXPECT_EQ(constraint->grammar, nullptr);
}

TEST_F(OutputConstraintTest, ForcedCallsHaveTheFormOfTheFamily) {
  const std::vector<std::pair<std::string_view, std::string_view>> calls = {
      {"hermes-json", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"},
      {"generic", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"},
      {"llama3", "{\"name\": \"f\", \"parameters\": {\"x\": 1}}"},
      {"mistral-json", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": 1}}]"},
      {"mistral-v13", "[TOOL_CALLS]f[ARGS]{\"x\": 1}"},
  };
  for (const auto& [dialect, call] : calls) {
    ChatRequest request = with_tools();
    const auto any = make(request, dialect);
    ASSERT_TRUE(any) << any.error().message();
    EXPECT_TRUE(accepts(*any, call)) << dialect;
    EXPECT_FALSE(accepts(*any, "Sure.")) << dialect;
    EXPECT_TRUE(any->allows_control);
    request.forced_tool = "g";
    EXPECT_FALSE(accepts(*make(request, dialect), call)) << dialect;
  }
}

TEST_F(OutputConstraintTest, OneCallWhenCallsAreNotParallel) {
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
  ChatRequest request = with_tools();
  EXPECT_TRUE(accepts(*make(request, "hermes-json"), call + "\n" + call));
  request.parallel_tool_calls = false;
  EXPECT_FALSE(accepts(*make(request, "hermes-json"), call + "\n" + call));
  EXPECT_TRUE(accepts(*make(request, "hermes-json"), call));
}

TEST_F(OutputConstraintTest, FamiliesWithoutAGrammarAreNamed) {
  for (const std::string_view dialect : {"qwen-xml", "gemma4", "harmony"}) {
    const auto constraint = make(with_tools(), dialect);
    ASSERT_FALSE(constraint);
    EXPECT_EQ(constraint.error().code(), ErrorCode::kUnsupported);
    EXPECT_EQ(constraint.error().field(), "tool_choice");
    EXPECT_NE(constraint.error().message().find(dialect), std::string::npos);
  }
}

TEST_F(OutputConstraintTest, ASchemaHoldsBehindTheReasoningThatThePromptOpened) {
  ChatRequest request;
  request.output_schema = OutputSchema{.schema = {{"type", "object"}}, .is_strict = false};
  const auto direct = make(request, "qwen-xml");
  ASSERT_TRUE(direct);
  EXPECT_TRUE(direct->begins_after.empty());
  EXPECT_FALSE(direct->allows_control);
  EXPECT_TRUE(accepts(*direct, "{\"a\": [1]}"));
  EXPECT_FALSE(accepts(*direct, "[1]"));
  EXPECT_EQ(make(request, "qwen-xml", Start::kInReasoning)->begins_after, "</think>");
  EXPECT_EQ(make(request, "mistral-v13", Start::kInReasoning)->begins_after, "[/THINK]");
  EXPECT_FALSE(make(request, "gemma4", Start::kInReasoning));
  EXPECT_FALSE(make(request, "harmony"));
}

TEST_F(OutputConstraintTest, AStrictSchemaNamesWhatCannotBeEnforced) {
  ChatRequest request;
  request.output_schema = OutputSchema{.schema = {{"type", "number"}, {"multipleOf", 3}}, .is_strict = true};
  const auto strict = make(request, "generic");
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().reason(), "invalid_schema");
  EXPECT_NE(strict.error().message().find("multipleOf"), std::string::npos);
  request.output_schema->is_strict = false;
  EXPECT_TRUE(make(request, "generic"));
}

}  // namespace
}  // namespace tempo9::server
