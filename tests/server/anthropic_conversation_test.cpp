// Messages, blocks and tools of an Anthropic request. Spec api 5.1 and 5.2.
#include "server/dialects/anthropic_conversation.h"

#include <gtest/gtest.h>

#include "chat/tool_messages.h"

namespace tempo9::server {
namespace {

using chat::Message;
using chat::Role;

std::vector<Message> read(std::string_view body) {
  const Json document = Json::parse(body);
  FieldReader fields(document);
  chat::ImageReader images(/*can_see=*/false, 0);
  std::vector<Message> messages = read_anthropic_messages(fields, images);
  const auto result = fields.result();
  EXPECT_TRUE(result) << result.error().message();
  return messages;
}

std::vector<Message> read_user(std::string_view content) {
  return read(R"({"messages":[{"role":"user","content":)" + std::string(content) + "}]}");
}

// "user:x assistant:y{reasoning}[f {"a":1}] tool(id):z"
std::string outline(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) {
    if (!text.empty()) text += " | ";
    if (message.role == Role::kSystem) text += "system:";
    if (message.role == Role::kUser) text += "user:";
    if (message.role == Role::kAssistant) text += "assistant:";
    if (message.role == Role::kTool) text += "tool(" + message.tool_call_id + "):";
    text += message.content;
    if (!message.reasoning.empty()) text += "{" + message.reasoning + "}";
    for (const chat::ToolCall& call : message.tool_calls) {
      text += "[" + call.id + " " + call.name + " " + call.arguments.dump() + "]";
    }
  }
  return text;
}

TEST(AnthropicConversation, SystemIsAStringOrBlocks) {
  EXPECT_EQ(outline(read(R"({"system":"S","messages":[{"role":"user","content":"hi"}]})")), "system:S | user:hi");
  EXPECT_EQ(outline(read(R"({"system":[{"type":"text","text":"A"},{"type":"text","text":"B"}],
                             "messages":[{"role":"user","content":"hi"}]})")),
            "system:A\n\nB | user:hi");
  EXPECT_EQ(outline(read(R"({"system":[],"messages":[{"role":"user","content":"hi"}]})")), "user:hi");
}

TEST(AnthropicConversation, TextBlocksAreJoinedByTheirRole) {
  EXPECT_EQ(outline(read(R"({"messages":[
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]},
      {"role":"user","content":"e"}]})")),
            "user:a\nb | assistant:cd | user:e");
}

TEST(AnthropicConversation, ToolUseAndResultsBecomeCallsAndToolMessages) {
  EXPECT_EQ(outline(read(R"({"messages":[{"role":"user","content":"go"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},{"type":"text","text":"Two."},
        {"type":"tool_use","id":"t1","name":"f","input":{"z":1,"a":2}},
        {"type":"tool_use","id":"t2","name":"g","input":{}}]},
      {"role":"user","content":[{"type":"text","text":"and then"},
        {"type":"tool_result","tool_use_id":"t2","content":"second"},
        {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]}]})")),
            R"(user:go | assistant:Two.{Hm.}[t1 f {"z":1,"a":2}][t2 g {}] | tool(t1):x
y | tool(t2):second | user:and then)");
}

// Field report D11: a screenshot among the results. Refusing it would end the session: it comes again with every turn.
TEST(AnthropicConversation, AnImageInAResultBecomesANote) {
  const auto result_with = [](std::string_view content) {
    return read(R"({"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"shot","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t")" +
                std::string(content) + "}]}]}")
        .back()
        .content;
  };
  const std::string note(chat::kImageNote);
  const std::string image = R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}})";
  EXPECT_EQ(result_with(""), "");
  EXPECT_EQ(result_with(R"(,"content":"shot")"), "shot");
  EXPECT_EQ(result_with(R"(,"content":[{"type":"text","text":"shot"}])"), "shot");
  EXPECT_EQ(result_with(R"(,"content":[{"type":"text","text":"shot"},)" + image + "]"), "shot\n" + note);
  EXPECT_EQ(result_with(R"(,"is_error":true,"content":[)" + image + "]"), "Error: " + note);
}

TEST(AnthropicConversation, ResultsAloneMakeNoUserMessageAndMissingOnesAreEmpty) {
  constexpr std::string_view kCalls = R"({"messages":[{"role":"assistant","content":[
      {"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},)";
  const std::string calls = "assistant:[t1 f {}][t2 g {}] | ";
  EXPECT_EQ(
      outline(read(std::string(kCalls) + R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}]})")),
      calls + "tool(t1): | tool(t2):");
  EXPECT_EQ(outline(read(std::string(kCalls) + R"({"role":"user","content":"stop"}]})")),
            calls + "tool(t1): | tool(t2): | user:stop");
}

TEST(AnthropicConversation, AFailedToolSaysSo) {
  const auto result = [](std::string_view content) {
    return outline(read(R"({"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f"}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":)" +
                        std::string(content) + "}]}]}"))
        .substr(std::string("assistant:[t f {}] | ").size());
  };
  EXPECT_EQ(result(R"("no such file")"), "tool(t):Error: no such file");
  EXPECT_EQ(result(R"("TypeError: x")"), "tool(t):TypeError: x");
  EXPECT_EQ(result("null"), "tool(t):Error: ");
}

// Field report A09: a client keeps what it could not parse, and sends it on every later turn.
TEST(AnthropicConversation, BrokenInputOfAnEarlierCallDoesNotPoisonTheSession) {
  EXPECT_EQ(outline(read(R"({"messages":[{"role":"assistant","content":[
      {"type":"tool_use","id":"t","name":"f","input":"{\"a\":"}]},{"role":"user","content":"on"}]})")),
            R"(assistant:[t f "{\"a\":"] | tool(t): | user:on)");
}

TEST(AnthropicConversation, AssistantsWithoutContentSayNothing) {
  for (const char* content : {R"(,"content":null)", R"(,"content":"")", R"(,"content":[])", ""}) {
    EXPECT_EQ(outline(read(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant")" + std::string(content) +
                           R"(},{"role":"user","content":"b"}]})")),
              "user:a | assistant: | user:b");
  }
}

TEST(AnthropicConversation, SystemMessagesKeepTheirPlace) {
  EXPECT_EQ(outline(read(R"({"messages":[{"role":"user","content":"a"},{"role":"system","content":"now"},
      {"role":"developer","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},
      {"role":"system","output_config":{"effort":"low"}}]})")),
            "user:a | system:now | system:b\nc");
}

TEST(AnthropicConversation, ASystemMessageMayEndWithItsTurn) {
  constexpr std::string_view kReminder = R"({"role":"system","content":"once","clear_at":"next_user_message"})";
  EXPECT_EQ(outline(read(R"({"messages":[{"role":"user","content":"a"},)" + std::string(kReminder) + "]}")),
            "user:a | system:once");
  EXPECT_EQ(outline(read(R"({"messages":[{"role":"user","content":"a"},)" + std::string(kReminder) +
                         R"(,{"role":"user","content":"b"}]})")),
            "user:a | user:b");
}

TEST(AnthropicConversation, DocumentsAndSearchResultsAreText) {
  EXPECT_EQ(outline(read_user(R"([{"type":"document","title":"T","source":{"type":"text","media_type":"text/plain",
      "data":"body"}},{"type":"document","source":{"type":"content","content":[{"type":"text","text":"p"},
      {"type":"text","text":"q"}]}},{"type":"search_result","title":"R","source":"http://r","content":[
      {"type":"text","text":"found"}]}])")),
            "user:T\nbody\np\nq\nR\nhttp://r\nfound");
}

TEST(AnthropicConversation, BlocksOfAnthropicsServersAndNewOnesAreLeftOut) {
  EXPECT_EQ(outline(read(R"({"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"f"},
      {"type":"text","text":"a"},{"type":"brand_new","x":1}]},
      {"role":"assistant","content":[{"type":"redacted_thinking","data":"zz"},{"type":"server_tool_use","id":"s"},
      {"type":"web_search_tool_result","content":[]},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]})")),
            "user:a | assistant:b | user:c");
}

TEST(AnthropicConversation, ToolsHaveTheFormOfTemplates) {
  const Json document = Json::parse(R"({"tools":[
      {"type":"custom","input_schema":{"type":"object","properties":{"b":{},"a":{}}},"name":"f","description":"does",
       "cache_control":{"type":"ephemeral"},"strict":false},
      {"type":"web_search_20250305","name":"web_search"},{"name":"g"}]})");
  FieldReader fields(document);
  const std::vector<Json> tools = read_anthropic_tools(fields);
  ASSERT_TRUE(fields.result());
  ASSERT_EQ(tools.size(), 2u);
  EXPECT_EQ(tools[0].dump(), R"({"type":"function","function":{"name":"f","description":"does",)"
                             R"("parameters":{"type":"object","properties":{"b":{},"a":{}}}}})");
  EXPECT_EQ(tools[1].dump(), R"({"type":"function","function":{"name":"g","description":"",)"
                             R"("parameters":{"type":"object","properties":{}}}})");
}

}  // namespace
}  // namespace tempo9::server
