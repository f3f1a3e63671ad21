#include "chat/openai_messages.h"

#include <gtest/gtest.h>

#include "chat/tool_messages.h"

namespace tempo9::chat {
namespace {

Result<Conversation> parse(std::string_view body) { return parse_openai_conversation(Json::parse(body)); }

Conversation parse_ok(std::string_view body) {
  auto conversation = parse(body);
  EXPECT_TRUE(conversation) << (conversation ? "" : conversation.error().message());
  return conversation ? *conversation : Conversation{};
}

void expect_error(std::string_view body, std::string_view field, std::string_view reason) {
  auto conversation = parse(body);
  ASSERT_FALSE(conversation) << body;
  EXPECT_EQ(conversation.error().code(), ErrorCode::kInvalidInput) << body;
  EXPECT_EQ(conversation.error().field(), field) << body;
  EXPECT_EQ(conversation.error().reason(), reason) << body;
}

TEST(OpenAiMessages, RolesAndContentForms) {
  auto c = parse_ok(R"({"messages":[
    {"role":"developer","content":"rules"},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"input_text","text":"b"}],"name":"ann"},
    {"role":"assistant","content":"x","reasoning_content":"why","refusal":"no"}]})");
  ASSERT_EQ(c.messages.size(), 3u);
  EXPECT_EQ(c.messages[0].role, Role::kSystem);
  EXPECT_EQ(c.messages[1].content, "ab");
  EXPECT_EQ(c.messages[1].name, "ann");
  EXPECT_EQ(c.messages[2].content, "xno");
  EXPECT_EQ(c.messages[2].reasoning, "why");
  EXPECT_TRUE(c.add_generation_prompt);
  EXPECT_TRUE(c.tools.empty());
}

TEST(OpenAiMessages, ArgumentsBecomeObjectsInKeyOrder) {
  auto c = parse_ok(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[
    {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"b\"}"}},
    {"id":"c2","type":"function","function":{"name":"g","arguments":"{broken"}},
    {"id":"c3","type":"function","function":{"name":"h","arguments":{"already":true}}},
    {"id":"c4","type":"function","function":{"name":"i"}}]}]})");
  const auto& calls = c.messages[0].tool_calls;
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].arguments.dump(), R"({"z":1,"a":"b"})");
  EXPECT_EQ(calls[1].arguments, Json("{broken"));
  EXPECT_EQ(calls[2].arguments.dump(), R"({"already":true})");
  EXPECT_EQ(calls[3].arguments, Json::object());
}

TEST(OpenAiMessages, NullIdsAreMatchedInOrder) {
  auto c = parse_ok(R"({"messages":[
    {"role":"assistant","tool_calls":[
      {"id":null,"type":"function","function":{"name":"f","arguments":"{}"}},
      {"type":"function","function":{"name":"g","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":null,"content":"1"},
    {"role":"tool","content":"2"}]})");
  const auto& calls = c.messages[0].tool_calls;
  EXPECT_FALSE(calls[0].id.empty());
  EXPECT_NE(calls[0].id, calls[1].id);
  EXPECT_EQ(c.messages[1].tool_call_id, calls[0].id);
  EXPECT_EQ(c.messages[1].name, "f");
  EXPECT_EQ(c.messages[2].tool_call_id, calls[1].id);
  EXPECT_EQ(c.messages[2].name, "g");
}

TEST(OpenAiMessages, ResultsAreSortedByTheirCalls) {
  auto c = parse_ok(R"({"messages":[
    {"role":"assistant","tool_calls":[
      {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},
      {"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"b","content":"2"},
    {"role":"tool","tool_call_id":"a","content":"1"}]})");
  EXPECT_EQ(c.messages[1].name, "f");
  EXPECT_EQ(c.messages[2].name, "g");
}

TEST(OpenAiMessages, LegacyFunctionCalls) {
  auto c = parse_ok(R"({"functions":[{"name":"f"}],"messages":[
    {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}},
    {"role":"function","name":"f","content":"r"}]})");
  ASSERT_EQ(c.messages[0].tool_calls.size(), 1u);
  EXPECT_EQ(c.messages[1].role, Role::kTool);
  EXPECT_EQ(c.messages[1].tool_call_id, c.messages[0].tool_calls[0].id);
  ASSERT_EQ(c.tools.size(), 1u);
  EXPECT_EQ(
      c.tools[0].dump(),
      R"({"type":"function","function":{"name":"f","description":"","parameters":{"type":"object","properties":{}}}})");
}

TEST(OpenAiMessages, ToolsKeepKeyOrderAndUnknownTypesAreDropped) {
  auto c = parse_ok(R"({"messages":[{"role":"user","content":"x"}],"tools":[
    {"type":"web_search"},
    {"type":"function","function":{"strict":true,"name":"f","parameters":{"properties":{"b":{},"a":{}},"type":"object"}}},
    {"type":"custom","custom":{"name":"patch","description":"d"}}]})");
  ASSERT_EQ(c.tools.size(), 2u);
  EXPECT_EQ(
      c.tools[0]["function"].dump(),
      R"({"strict":true,"name":"f","parameters":{"properties":{"b":{},"a":{}},"type":"object"},"description":""})");
  EXPECT_EQ(c.tools[1]["function"]["parameters"]["required"].dump(), R"(["input"])");
}

TEST(OpenAiMessages, ThinkingSwitches) {
  EXPECT_EQ(parse_ok(R"({"messages":[{"role":"user","content":"x"}]})").template_kwargs.dump(), "{}");
  EXPECT_EQ(
      parse_ok(R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"none"})").template_kwargs.dump(),
      R"({"enable_thinking":false})");
  EXPECT_EQ(parse_ok(R"({"messages":[{"role":"user","content":"x"}],"reasoning_effort":"none","enable_thinking":true})")
                .template_kwargs.dump(),
            R"({"enable_thinking":true})");
  EXPECT_EQ(parse_ok(R"({"messages":[{"role":"user","content":"x"}],"enable_thinking":true,
                         "chat_template_kwargs":{"enable_thinking":false}})")
                .template_kwargs.dump(),
            R"({"enable_thinking":false})");
}

TEST(OpenAiMessages, ErrorsNameTheField) {
  expect_error(R"([])", "body", "invalid_type");
  expect_error(R"({})", "messages", "missing_required_parameter");
  expect_error(R"({"messages":{}})", "messages", "invalid_type");
  expect_error(R"({"messages":[]})", "messages", "invalid_value");
  expect_error(R"({"messages":[3]})", "messages[0]", "invalid_type");
  expect_error(R"({"messages":[{"content":"x"}]})", "messages[0].role", "missing_required_parameter");
  expect_error(R"({"messages":[{"role":"king","content":"x"}]})", "messages[0].role", "invalid_value");
  expect_error(R"({"messages":[{"role":"user"}]})", "messages[0].content", "missing_required_parameter");
  expect_error(R"({"messages":[{"role":"assistant"}]})", "messages[0].content", "missing_required_parameter");
  expect_error(R"({"messages":[{"role":"user","content":"x"},{"role":"user","content":5}]})", "messages[1].content",
               "invalid_type");
  expect_error(R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text",
               "missing_required_parameter");
  expect_error(R"({"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url",
                   "image_url":{"url":"data:image/png;base64,AA"}}]}]})",
               "messages[0].content[1]", "unsupported_content");
  // A refused screenshot in a tool's result would end the conversation with every later turn.
  const auto result = parse_openai_messages(Json::parse(R"([{"role":"assistant","tool_calls":[{"id":"a",
      "function":{"name":"shot"}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"done "},
      {"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}])"));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->back().content, "done " + std::string(kImageNote));
  expect_error(R"({"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]})", "messages[0].tool_calls[0].function",
               "missing_required_parameter");
  expect_error(R"({"messages":[{"role":"assistant","tool_calls":{}}]})", "messages[0].tool_calls", "invalid_type");
  expect_error(R"({"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]})", "tools[0].function",
               "missing_required_parameter");
  expect_error(R"({"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":[]})", "chat_template_kwargs",
               "invalid_type");
}

}  // namespace
}  // namespace tempo9::chat
