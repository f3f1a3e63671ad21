// What the items of a Responses request say. Spec api 4.2 and 4.3.
#include "server/dialects/openai_responses_items.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "chat/tool_messages.h"

namespace tempo9::server {
namespace {

using chat::Message;
using chat::Role;

std::vector<Message> read(const std::string& input) {
  const Json document = Json::parse(R"({"input":)" + input + "}");
  FieldReader fields(document);
  ResponsesTools tools;
  std::vector<Message> messages;
  chat::ImageReader images(/*can_see=*/false, 0);
  read_responses_items(fields, "input", tools, images, messages);
  EXPECT_TRUE(fields.result()) << fields.result().error().message();
  chat::settle_tool_results(messages);
  return messages;
}

std::string outline(const std::vector<Message>& messages) {
  static constexpr const char* kRoles[] = {"system", "user", "assistant", "tool"};
  std::string text;
  for (const Message& message : messages) {
    if (!text.empty()) text += " | ";
    text += kRoles[static_cast<int>(message.role)];
    if (!message.tool_call_id.empty()) text += "(" + message.tool_call_id + ")";
    text += ":";
    if (!message.reasoning.empty()) text += "{" + message.reasoning + "}";
    text += message.content;
    for (const chat::ToolCall& call : message.tool_calls) {
      text += fmt::format("[{} {} {}]", call.id, call.name, call.arguments.dump());
    }
  }
  return text;
}

std::string outline_of(const std::string& input) { return outline(read(input)); }

TEST(ResponsesItems, AStringIsAMessageOfTheUser) { EXPECT_EQ(outline_of(R"("hello")"), "user:hello"); }

TEST(ResponsesItems, MessagesMayComeWithoutTheirType) {
  EXPECT_EQ(outline_of(R"([{"role":"developer","content":"rules"},{"type":"message","role":"system","content":[
      {"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},{"role":"user","content":"hi","id":7},
      {"role":"assistant","id":"msg_1","status":"completed","phase":"final_answer","content":[
        {"type":"output_text","text":"yes","annotations":[],"logprobs":[]},{"type":"refusal","refusal":"no"}]},
      {"role":"user","content":[{"type":"text","text":"x"}]}])"),
            "system:rules | system:ab | user:hi | assistant:yesno | user:x");
}

// Codex: what one answer consisted of comes back as items of its own.
TEST(ResponsesItems, ItemsOfTheAssistantAreOneTurn) {
  EXPECT_EQ(outline_of(R"([{"role":"user","content":"go"},
      {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Plan."}],"encrypted_content":null},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Two calls."}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\": 1}","status":"completed"},
      {"type":"function_call","call_id":"c2","name":"g","arguments":""},
      {"type":"function_call_output","call_id":"c2","output":"two"},
      {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"o"},
        {"type":"output_text","text":"ne"}]},
      {"type":"message","role":"assistant","content":"Done."}])"),
            R"(user:go | assistant:{Plan.}Two calls.[c1 f {"a":1}][c2 g {}] | tool(c1):one | tool(c2):two | )"
            "assistant:Done.");
}

TEST(ResponsesItems, AMessageBetweenACallAndItsOutputDoesNotSplitThem) {
  EXPECT_EQ(outline_of(R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"role":"assistant","content":"running"},{"type":"function_call_output","call_id":"c","output":"r"}])"),
            "assistant:running[c f {}] | tool(c):r");
}

// Field report D02: the first turn of every Codex session.
TEST(ResponsesItems, AReasoningItemNeedsNoSummary) {
  for (const char* summary : {R"(,"summary":null)", R"(,"summary":[])", "", R"(,"summary":null,"content":null)"}) {
    EXPECT_EQ(outline_of(fmt::format(R"([{{"type":"reasoning"{}}},{{"role":"user","content":"hi"}}])", summary)),
              "user:hi");
  }
}

TEST(ResponsesItems, ReasoningIsTakenFromTheFirstSourceThatHasIt) {
  const auto reasoning = [](const std::string& fields) {
    return outline_of(R"([{"type":"reasoning")" + fields + R"(},{"role":"assistant","content":"x"}])");
  };
  const std::string summary = R"(,"summary":[{"type":"summary_text","text":"s"},{"type":"summary_text","text":"t"}])";
  const std::string content = R"(,"content":[{"type":"reasoning_text","text":"c"}])";
  const std::string sealed = R"(,"encrypted_content":")" + seal_reasoning("whole") + "\"";
  EXPECT_EQ(reasoning(summary), "assistant:{s\n\nt}x");
  EXPECT_EQ(reasoning(summary + content), "assistant:{c}x");
  EXPECT_EQ(reasoning(summary + content + sealed), "assistant:{whole}x");
  for (const char* foreign : {"gAAAAABo-foreign_", "", "dDk=", "####"}) {
    EXPECT_EQ(reasoning(summary + R"(,"encrypted_content":")" + foreign + "\""), "assistant:{s\n\nt}x") << foreign;
  }
  EXPECT_EQ(reasoning(summary + R"(,"encrypted_content":5)"), "assistant:{s\n\nt}x");
  EXPECT_EQ(seal_reasoning("List the folder."), "dDk6TGlzdCB0aGUgZm9sZGVyLg==") << "the specification's example";
}

TEST(ResponsesItems, CallsOfCustomToolsAndOfNamespacesHaveTheNamesOfTheModel) {
  EXPECT_EQ(outline_of(R"([{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** \"x\"\n"},
      {"type":"custom_tool_call_output","call_id":"c1","output":"ok"},
      {"type":"function_call","call_id":"c2","name":"spawn","namespace":"agents","arguments":"{\"n\":1.50}"},
      {"type":"function_call_output","call_id":"c2","output":null}])"),
            R"(assistant:[c1 apply_patch {"input":"*** \"x\"\n"}] | tool(c1):ok | )"
            R"(assistant:[c2 agents__spawn {"n":1.5}] | tool(c2):)");
}

TEST(ResponsesItems, ShellsAndPatchesOfOpenAiAreCalls) {
  EXPECT_EQ(
      outline_of(R"([
      {"type":"local_shell_call","call_id":"c1","action":{"type":"exec","command":["ls"]},"status":"completed"},
      {"type":"local_shell_call_output","id":"c1","output":"a b"},
      {"type":"shell_call","call_id":"c2","action":{"commands":["pwd"]}},
      {"type":"shell_call_output","call_id":"c2","output":[{"stdout":"/","stderr":"","outcome":{"type":"exit"}}]},
      {"type":"apply_patch_call","call_id":"c3","operation":{"type":"delete_file","path":"x"}},
      {"type":"apply_patch_call_output","call_id":"c3","status":"completed","output":"gone"}])"),
      R"(assistant:[c1 local_shell {"type":"exec","command":["ls"]}] | tool(c1):a b | )"
      R"(assistant:[c2 shell {"commands":["pwd"]}] | tool(c2):{"stdout":"/","stderr":"","outcome":{"type":"exit"}} | )"
      R"(assistant:[c3 apply_patch {"type":"delete_file","path":"x"}] | tool(c3):gone)");
}

TEST(ResponsesItems, OutputsOfUnknownCallsAreAttachedInOrder) {
  EXPECT_EQ(outline_of(R"([{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"other","output":"r"}])"),
            "assistant:[c1 f {}] | tool(c1):r");
  EXPECT_EQ(outline_of(R"([{"type":"function_call_output","call_id":"c","output":"alone"}])"), "user:alone");
}

// What Codex's view_image returns.
TEST(ResponsesItems, AnImageInAResultIsANote) {
  EXPECT_EQ(outline_of(R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
      {"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"shot: "},
        {"type":"input_image","image_url":"data:image/png;base64,AA"}]}])"),
            "assistant:[c f {}] | tool(c):shot: " + std::string(chat::kImageNote));
}

TEST(ResponsesItems, BrokenArgumentsStayText) {
  EXPECT_EQ(outline_of(R"([{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\": "},
      {"role":"user","content":"on"}])"),
            R"(assistant:[c f "{\"a\": "] | tool(c): | user:on)");
}

TEST(ResponsesItems, ItemsOfOpenAisServersAndNewOnesAreLeftOut) {
  EXPECT_EQ(outline_of(R"([{"role":"user","content":"a"},{"type":"web_search_call","id":"ws_1"},
      {"type":"mcp_list_tools","tools":[]},{"type":"compaction","encrypted_content":"x"},{"type":"item_reference","id":"q"},
      {"type":"brand_new","x":{"y":1}},{"type":"computer_call_output","output":{}},{"role":"user","content":"b"}])"),
            "user:a | user:b");
}

TEST(ResponsesItems, ToolsMayBeDeclaredInTheInput) {
  const Json document = Json::parse(R"({"tools":[{"type":"function","name":"f"}],"input":[
      {"type":"additional_tools","role":"developer","tools":[{"type":"custom","name":"exec","description":"d"},
        {"type":"namespace","name":"ns","tools":[{"type":"function","name":"f"}]},{"type":"function","name":"f",
        "description":"another"}]},
      {"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"g"}]}]})");
  FieldReader fields(document);
  ResponsesTools tools;
  std::vector<Message> messages;
  tools.read(fields, "tools");
  chat::ImageReader images(/*can_see=*/false, 0);
  read_responses_items(fields, "input", tools, images, messages);
  ASSERT_TRUE(fields.result());
  std::string names;
  for (const Json& tool : tools.offered()) names += tool["function"]["name"].get<std::string>() + " ";
  EXPECT_EQ(names, "f exec ns__f g ");
  EXPECT_EQ(tools.offered()[0]["function"]["description"], "") << "the first of a name stays";
  EXPECT_EQ(tools.find("exec")->kind, ResponsesTool::Kind::kCustom);
  EXPECT_EQ(tools.find("ns__f")->name_space, "ns");
  EXPECT_EQ(tools.find("f")->name_space, "");
  EXPECT_EQ(tools.find("ns"), nullptr);
}

TEST(ResponsesItems, ToolsHaveTheFormOfTemplates) {
  const Json document = Json::parse(R"({"tools":[
      {"type":"function","strict":true,"parameters":{"type":"object","properties":{"b":{},"a":{}}},"name":"f",
        "description":"does"},
      {"type":"function","name":"g","strict":false,"description":null,"parameters":null},
      {"type":"custom","name":"p","description":"patch","format":{"type":"grammar","syntax":"lark","definition":"s: x"}},
      {"type":"custom","name":"t","format":{"type":"text"}}]})");
  FieldReader fields(document);
  ResponsesTools tools;
  tools.read(fields, "tools");
  ASSERT_TRUE(fields.result());
  const std::string expected[] = {
      R"({"type":"function","function":{"name":"f","description":"does",)"
      R"("parameters":{"type":"object","properties":{"b":{},"a":{}}},"strict":true}})",
      R"({"type":"function","function":{"name":"g","description":"","parameters":{"type":"object","properties":{}}}})",
      R"({"type":"function","function":{"name":"p",)"
      R"("description":"patch\n\nThe input is text of this grammar (lark):\ns: x",)"
      R"("parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}})",
      R"({"type":"function","function":{"name":"t","description":"",)"
      R"("parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}})"};
  ASSERT_EQ(tools.offered().size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(tools.offered()[i].dump(), expected[i]);
}

TEST(ResponsesItems, LongNamesOfNamespacesAreCutAndStayDifferent) {
  const std::string space(40, 'n');
  const std::string a = flat_tool_name(space, std::string(30, 't') + "a");
  const std::string b = flat_tool_name(space, std::string(30, 't') + "b");
  EXPECT_EQ(a.size(), 64u);
  EXPECT_EQ(b.size(), 64u);
  EXPECT_NE(a, b);
  EXPECT_EQ(a, flat_tool_name(space, std::string(30, 't') + "a"));
  EXPECT_EQ(flat_tool_name("", std::string(80, 'x')).size(), 80u);
}

}  // namespace
}  // namespace tempo9::server
