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
                                  Start start = Start::kMaybeReasoning, bool may_reason = false) {
    return make_constraint(request, {*chat::tools::find_dialect(dialect), start, may_reason}, grammars_);
  }
  grammar::GrammarCache grammars_{4};
};

TEST_F(OutputConstraintTest, NothingAskedIsNothingHeld) {
  const auto constraint = make({}, "harmony");
  ASSERT_TRUE(constraint);
  EXPECT_EQ(constraint->grammar, nullptr);
}

struct Family {
  std::string_view dialect;
  std::string call;        // of f
  std::string thought;     // that may come before
  std::string in_thought;  // behind a prompt that has opened it
};

const std::vector<Family>& families() {
  const std::string hermes = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>";
  static const std::vector<Family> all = {
      {"hermes-json", hermes, "<think>\nHm.\n</think>\n\n", "Hm.</think>"},
      {"generic", hermes, "<think>Hm.</think>", "Hm.</think>"},
      {"qwen-xml", "<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
       "<think>\nHm.\n</think>\n\n", "Hm.\n</think>\n\n"},
      {"llama3", "{\"name\": \"f\", \"parameters\": {\"x\": 1}}", "<think>Hm.</think>", "Hm.</think>"},
      {"mistral-json", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"x\": 1}}]", "[THINK]Hm.[/THINK]",
       "Hm.[/THINK]"},
      {"mistral-v13", "[TOOL_CALLS]f[ARGS]{\"x\": 1}", "[THINK]Hm.[/THINK]", "Hm.[/THINK]"},
      {"harmony", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"x\": 1}",
       "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant", ""},
      {"gemma4", "<|tool_call>call:f{x:1}<tool_call|>", "<|channel>thought\nHm.<channel|>", "Hm.<channel|>"},
  };
  return all;
}

TEST_F(OutputConstraintTest, ForcedCallsHaveTheFormOfTheFamily) {
  EXPECT_EQ(families().size(), chat::tools::all_dialects().size());
  for (const auto& [dialect, call, thought, in_thought] : families()) {
    ChatRequest request = with_tools();
    const auto any = make(request, dialect);
    ASSERT_TRUE(any) << any.error().message();
    EXPECT_TRUE(accepts(*any, call)) << dialect;
    EXPECT_FALSE(accepts(*any, "Sure.")) << dialect;
    EXPECT_FALSE(accepts(*any, thought + call)) << dialect;
    EXPECT_TRUE(any->allows_control);
    EXPECT_TRUE(accepts(*make(request, dialect, Start::kMaybeReasoning, true), thought + call)) << dialect;
    EXPECT_TRUE(accepts(*make(request, dialect, Start::kMaybeReasoning, true), call)) << dialect;
    if (!in_thought.empty()) {
      EXPECT_TRUE(accepts(*make(request, dialect, Start::kInReasoning), in_thought + call)) << dialect;
      EXPECT_FALSE(accepts(*make(request, dialect, Start::kInReasoning), in_thought)) << dialect;
    }
    request.forced_tool = "g";
    EXPECT_FALSE(accepts(*make(request, dialect), call)) << dialect;
    request.forced_tool = {};
    request.allowed_tools = {"g"};
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

TEST_F(OutputConstraintTest, StrictToolsAreHeldWhereACallBegins) {
  ChatRequest request = with_tools();
  request.requires_call = false;
  request.conversation.tools[1]["function"].erase("strict");
  for (const auto& [dialect, call, thought, in_thought] : families()) {
    const auto constraint = make(request, dialect, Start::kMaybeReasoning, true);
    ASSERT_TRUE(constraint && constraint->grammar) << dialect;
    EXPECT_TRUE(accepts(*constraint, call)) << dialect;
    EXPECT_TRUE(accepts(*constraint, thought + call)) << dialect;
    EXPECT_TRUE(accepts(*constraint, "Well, no.")) << dialect;
    std::string bad = call;
    bad.replace(bad.rfind('1'), 1, "true");
    EXPECT_FALSE(accepts(*constraint, bad)) << dialect;
  }
  const auto xml = make(request, "qwen-xml");
  EXPECT_TRUE(accepts(*xml, "See:\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>"));
  EXPECT_FALSE(accepts(*xml, "<function=f>\n</function>")) << "a call without its tag";
  EXPECT_TRUE(accepts(*xml, "See <function=f>")) << "no line begins with it";
  request.conversation.tools[0]["function"].erase("strict");
  EXPECT_EQ(make(request, "qwen-xml")->grammar, nullptr);
}

TEST_F(OutputConstraintTest, AToolThatIsNotAllowedCannotBeCalled) {
  ChatRequest request = with_tools();
  request.requires_call = false;
  for (Json& tool : request.conversation.tools) tool["function"].erase("strict");
  request.allowed_tools = {"g"};
  for (const auto& [dialect, call, thought, in_thought] : families()) {
    if (dialect == "harmony") continue;  // its headers may name any recipient
    EXPECT_FALSE(accepts(*make(request, dialect), call)) << dialect;
  }
}

TEST_F(OutputConstraintTest, ASchemaHoldsBehindTheReasoning) {
  ChatRequest request;
  request.output_schema = OutputSchema{.schema = {{"type", "object"}}, .is_strict = false};
  const auto direct = make(request, "qwen-xml");
  ASSERT_TRUE(direct);
  EXPECT_FALSE(direct->allows_control);
  EXPECT_TRUE(accepts(*direct, "{\"a\": [1]}"));
  EXPECT_FALSE(accepts(*direct, "[1]"));
  for (const auto& [dialect, call, thought, in_thought] : families()) {
    const std::string head = dialect == "harmony" ? "<|channel|>final<|message|>" : "";
    EXPECT_TRUE(accepts(*make(request, dialect, Start::kMaybeReasoning, true), thought + head + "{}")) << dialect;
    if (in_thought.empty()) continue;
    const auto inside = make(request, dialect, Start::kInReasoning);
    EXPECT_TRUE(accepts(*inside, in_thought + "{}")) << dialect;
    EXPECT_FALSE(accepts(*inside, in_thought + "Sure")) << dialect;
  }
}

TEST_F(OutputConstraintTest, ASchemaBesideToolsLeavesAChoice) {
  ChatRequest request = with_tools();
  request.requires_call = false;
  request.output_schema = OutputSchema{.schema = {{"type", "object"}}, .is_strict = false};
  for (const auto& [dialect, call, thought, in_thought] : families()) {
    const std::string head = dialect == "harmony" ? "<|channel|>final<|message|>" : "";
    const auto constraint = make(request, dialect);
    EXPECT_TRUE(accepts(*constraint, call)) << dialect;
    EXPECT_TRUE(accepts(*constraint, head + "{\"a\": 1}")) << dialect;
    EXPECT_FALSE(accepts(*constraint, head + "{\"a\": 1}" + call)) << dialect;
    EXPECT_FALSE(accepts(*constraint, head + "Sure.")) << dialect;
  }
  request.requires_call = true;
  EXPECT_FALSE(accepts(*make(request, "qwen-xml"), "{}"));
}

TEST_F(OutputConstraintTest, AStrictSchemaNamesWhatCannotBeEnforced) {
  ChatRequest request;
  request.output_schema = OutputSchema{.schema = {{"type", "number"}, {"multipleOf", 3}}, .is_strict = true};
  const auto strict = make(request, "generic");
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().reason(), "invalid_schema");
  EXPECT_EQ(strict.error().field(), "response_format");
  EXPECT_NE(strict.error().message().find("multipleOf"), std::string::npos);
  request.output_schema->is_strict = false;
  EXPECT_TRUE(make(request, "generic"));
}

TEST_F(OutputConstraintTest, AFaultOfAToolIsToldFromOneOfTheSchema) {
  ChatRequest request = with_tools();
  request.conversation.tools[0]["function"]["parameters"]["type"] = "list";
  EXPECT_EQ(make(request, "generic").error().field(), "tools");
  request.requires_call = false;
  EXPECT_EQ(make(request, "generic").error().field(), "tools") << "a strict tool";
  request.output_schema = OutputSchema{.schema = {{"type", "object"}}, .is_strict = false};
  EXPECT_EQ(make(request, "generic").error().field(), "tools") << "beside a schema";
}

}  // namespace
}  // namespace tempo9::server
