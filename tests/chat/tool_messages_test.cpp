#include "chat/tool_messages.h"

#include <gtest/gtest.h>

namespace tempo9::chat {
namespace {

Message user(std::string text) {
  Message message;
  message.content = std::move(text);
  return message;
}

Message calls(std::vector<ToolCall> list) {
  Message message;
  message.role = Role::kAssistant;
  message.tool_calls = std::move(list);
  return message;
}

Message result(std::string id, std::string text, std::string name = {}) {
  Message message;
  message.role = Role::kTool;
  message.tool_call_id = std::move(id);
  message.content = std::move(text);
  message.name = std::move(name);
  return message;
}

// "user:x assistant(a,b) tool(a,f):1 …"
std::string outline(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) {
    if (!text.empty()) text += ' ';
    switch (message.role) {
      case Role::kSystem:
        text += "system:" + message.content;
        break;
      case Role::kUser:
        text += "user:" + message.content;
        break;
      case Role::kTool:
        text += "tool(" + message.tool_call_id + "," + message.name + "):" + message.content;
        break;
      case Role::kAssistant:
        text += "assistant(";
        for (const ToolCall& call : message.tool_calls) text += (text.ends_with('(') ? "" : ",") + call.id;
        text += ")";
        break;
    }
  }
  return text;
}

std::string settled(std::vector<Message> messages) {
  settle_tool_results(messages);
  return outline(messages);
}

const ToolCall kA = {.id = "a", .name = "f", .arguments = Json::object()};
const ToolCall kB = {.id = "b", .name = "g", .arguments = Json::object()};

TEST(ToolMessages, ResultsComeInTheOrderOfTheCallsDirectlyAfterThem) {
  EXPECT_EQ(settled({calls({kA, kB}), result("b", "2"), result("a", "1")}), "assistant(a,b) tool(a,f):1 tool(b,g):2");
  EXPECT_EQ(settled({calls({kA, kB}), result("b", "2"), user("so"), result("a", "1"), user("on")}),
            "assistant(a,b) tool(a,f):1 tool(b,g):2 user:so user:on");
}

TEST(ToolMessages, OfSeveralResultsTheLastCountsAndAMissingOneIsEmpty) {
  EXPECT_EQ(settled({calls({kA, kB}), result("a", "old"), result("b", "2"), result("a", "new")}),
            "assistant(a,b) tool(a,f):new tool(b,g):2");
  EXPECT_EQ(settled({calls({kA, kB}), result("b", "2"), user("x")}), "assistant(a,b) tool(a,f): tool(b,g):2 user:x");
  EXPECT_EQ(settled({calls({kA}), user("never mind")}), "assistant(a) tool(a,f): user:never mind");
}

TEST(ToolMessages, UnknownIdsAnswerByNameThenByOrder) {
  EXPECT_EQ(settled({calls({kA, kB}), result("", "2", "g"), result("nope", "1")}),
            "assistant(a,b) tool(a,f):1 tool(b,g):2");
}

TEST(ToolMessages, AResultWithoutACallIsAUserMessage) {
  EXPECT_EQ(settled({user("x"), result("a", "1")}), "user:x user:1");
  EXPECT_EQ(settled({calls({kA}), result("a", "1"), result("", "more")}), "assistant(a) tool(a,f):1 user:more");
}

TEST(ToolMessages, CallsOfConsecutiveMessagesBelongTogetherAndTheLastOnesStayOpen) {
  EXPECT_EQ(settled({calls({kA}), calls({kB}), result("b", "2"), result("a", "1")}),
            "assistant(a) assistant(b) tool(a,f):1 tool(b,g):2");
  EXPECT_EQ(settled({user("x"), calls({kA})}), "user:x assistant(a)");
}

TEST(ToolMessages, EqualIdsAreAnsweredOneByOne) {
  EXPECT_EQ(settled({calls({kA, kA}), result("a", "1"), result("a", "2")}), "assistant(a,a) tool(a,f):1 tool(a,f):2");
}

TEST(ToolMessages, MissingIdsComeFromThePlaceInTheConversation) {
  const ToolCall nameless = {.id = "", .name = "f", .arguments = Json::object()};
  EXPECT_EQ(settled({calls({kA}), result("a", "1"), calls({nameless}), result("", "2")}),
            "assistant(a) tool(a,f):1 assistant(call_0001) tool(call_0001,f):2");
}

TEST(ToolMessages, ArgumentsAreAnObjectOrTheTextAsItCame) {
  const Json text = R"({"z":1,"a":2})";
  EXPECT_EQ(read_arguments(&text).dump(), R"({"z":1,"a":2})");
  const Json broken = "{";
  EXPECT_EQ(read_arguments(&broken), broken);
  const Json blank = " \n";
  EXPECT_EQ(read_arguments(&blank), Json::object());
  EXPECT_EQ(read_arguments(nullptr), Json::object());
}

}  // namespace
}  // namespace tempo9::chat
