// Conversations made into what a template can take, and what templates turn out to take.
#include "chat/history.h"

#include <gtest/gtest.h>

#include "chat/chat_format.h"
#include "chat/openai_messages.h"
#include "chat/template_support.h"
#include "support/data.h"

namespace tempo9::chat {
namespace {

using namespace testing;

Conversation conversation_with(const std::string& messages, const std::string& more = "") {
  auto parsed = parse_openai_conversation(Json::parse("{\"messages\":" + messages + more + "}"));
  EXPECT_TRUE(parsed) << parsed.error().message();
  return parsed ? *parsed : Conversation();
}

// "role:content" of each message; calls as "+name#id", results as "=name#id".
std::string outline(const Conversation& conversation) {
  std::string text;
  for (const Message& message : conversation.messages) {
    const char* const kRoles[] = {"system", "user", "assistant", "tool"};
    text += std::string(kRoles[static_cast<size_t>(message.role)]) + ":" + message.content;
    for (const ToolCall& call : message.tool_calls) text += "+" + call.name + "#" + call.id;
    if (message.role == Role::kTool) text += "=" + message.name + "#" + message.tool_call_id;
    text += "|";
  }
  return text;
}

std::string adapted(const std::string& messages, const TemplateTraits& traits, const std::string& more = "") {
  return outline(adapt_conversation(conversation_with(messages, more), traits));
}

constexpr const char* kTwoCalls = R"([{"role":"user","content":"u"},
    {"role":"assistant","content":"text","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},
      {"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"c2","content":"r2"},{"role":"tool","tool_call_id":"c1","content":"r1"},
    {"role":"user","content":"go on"}])";

TEST(History, WhatATemplateTakesIsLeftAlone) {
  const std::string messages = R"([{"role":"system","content":"s"},{"role":"user","content":"a"},
      {"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"system","content":"t"}])";
  EXPECT_EQ(adapted(messages, {}), "system:s|user:a|user:b|assistant:c|system:t|");
}

TEST(History, SystemMessages) {
  const std::string messages = R"([{"role":"system","content":"s"},{"role":"developer","content":"t"},
      {"role":"user","content":"a"},{"role":"system","content":"x"},{"role":"assistant","content":"c"},
      {"role":"system","content":"y"},{"role":"user","content":"b"}])";
  EXPECT_EQ(adapted(messages, {}), "system:s\n\nt|user:a|system:x|assistant:c|system:y|user:b|");
  EXPECT_EQ(adapted(messages, {.takes_later_system = false}),
            "system:s\n\nt|user:a\n\n<system-reminder>\nx\n</system-reminder>|assistant:c|"
            "user:<system-reminder>\ny\n</system-reminder>|user:b|");
  EXPECT_EQ(adapted(R"([{"role":"system","content":"s"},{"role":"user","content":"a"}])", {.takes_system = false}),
            "user:s\n\na|");
  EXPECT_EQ(adapted(R"([{"role":"system","content":"s"}])", {.takes_no_user = false}), "system:s|user:|");
}

TEST(History, TurnsThatMustAlternateAreJoined) {
  const std::string messages = R"([{"role":"user","content":"a"},{"role":"user","content":"b"},
      {"role":"assistant","content":"c"},{"role":"assistant","content":"d"},{"role":"user","content":"e"}])";
  EXPECT_EQ(adapted(messages, {.takes_same_role_twice = false}), "user:a\n\nb|assistant:c\n\nd|user:e|");
}

TEST(History, ResultsStandInTheOrderOfTheirCalls) {
  EXPECT_EQ(adapted(kTwoCalls, {}), "user:u|assistant:text+f#c1+g#c2|tool:r1=f#c1|tool:r2=g#c2|user:go on|");
  EXPECT_EQ(adapted(kTwoCalls, {.takes_parallel_calls = false}),
            "user:u|assistant:text+f#c1|tool:r1=f#c1|assistant:+g#c2|tool:r2=g#c2|user:go on|");
}

TEST(History, MissingResultsAreEmptyAndOrphansAreText) {
  EXPECT_EQ(adapted(R"([{"role":"user","content":"u"},{"role":"assistant","content":"","tool_calls":[
      {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},
      {"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c2","content":"r2"},{"role":"user","content":"x"},
      {"role":"assistant","content":"y"},{"role":"tool","tool_call_id":"zz","content":"orphan"}])",
                    {}),
            "user:u|assistant:+f#c1+g#c2|tool:=f#c1|tool:r2=g#c2|user:x|assistant:y|user:orphan|");
}

TEST(History, ShortIdsAreTheSameForCallAndResult) {
  const Conversation conversation = adapt_conversation(conversation_with(kTwoCalls), {.takes_any_call_id = false});
  const Message& calls = conversation.messages[1];
  EXPECT_EQ(calls.tool_calls[0].id.size(), 9u);
  EXPECT_NE(calls.tool_calls[0].id, calls.tool_calls[1].id);
  EXPECT_EQ(conversation.messages[2].tool_call_id, calls.tool_calls[0].id);
  EXPECT_EQ(conversation.messages[3].tool_call_id, calls.tool_calls[1].id);
}

TEST(History, CallsAndToolsAsTextForATemplateThatKnowsNone) {
  const TemplateTraits traits = {.takes_tools = false, .takes_tool_calls = false, .takes_tool_results = false};
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const Conversation conversation = adapt_conversation(conversation_with(kTwoCalls, tools), traits);
  EXPECT_TRUE(conversation.tools.empty());
  ASSERT_EQ(conversation.messages.size(), 5u);
  EXPECT_NE(conversation.messages[0].content.find("\"name\":\"f\""), std::string::npos);
  EXPECT_EQ(conversation.messages[2].content,
            "text\n<tool_call>\n{\"name\":\"f\",\"arguments\":{\"a\":1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\":\"g\",\"arguments\":{}}\n</tool_call>");
  EXPECT_EQ(conversation.messages[3].role, Role::kUser);
  EXPECT_EQ(conversation.messages[3].content,
            "<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n</tool_response>");
}

ChatFormat published(const std::string& name) {
  return ChatFormat::from_source(read_text(tempo9::testing::reference_path("templates/" + name + ".jinja")), "<s>",
                                 "</s>");
}

TEST(TemplateTraits, OfPublishedTemplates) {
  T9_NEED_DATA(tempo9::testing::reference_path("templates"));
  const TemplateTraits qwen = published("Qwen-Qwen3-0.6B").traits();
  EXPECT_TRUE(qwen.takes_system && qwen.takes_later_system && qwen.takes_tools && qwen.takes_parallel_calls &&
              qwen.takes_tool_results && qwen.takes_any_call_id && qwen.takes_same_role_twice);
  const TemplateTraits llama = published("meta-llama-Llama-3.2-3B-Instruct").traits();
  EXPECT_TRUE(llama.takes_tools && llama.takes_tool_calls && llama.takes_tool_results);
  EXPECT_FALSE(llama.takes_parallel_calls);
  const TemplateTraits gemma = published("google-gemma-2-2b-it").traits();
  EXPECT_FALSE(gemma.takes_system || gemma.takes_tools || gemma.takes_tool_calls || gemma.takes_same_role_twice);
  const TemplateTraits nemo = published("mistralai-Mistral-Nemo-Instruct-2407").traits();
  EXPECT_FALSE(nemo.takes_any_call_id || nemo.takes_same_role_twice);
  const TemplateTraits oss = published("openai-gpt-oss-120b").traits();
  EXPECT_TRUE(oss.takes_tools && oss.takes_tool_calls);
  EXPECT_FALSE(oss.takes_parallel_calls || oss.takes_text_with_reasoning);
}

// A whole tool loop as agents send it: system in the middle, two calls with text and reasoning, results in any order.
TEST(TemplateTraits, EveryPublishedTemplateRendersAToolLoop) {
  const std::string folder = tempo9::testing::reference_path("templates");
  T9_NEED_DATA(folder);
  const Json body = Json::parse(R"({"tools":[{"type":"function","function":{"name":"zqfirst","description":"d",
      "parameters":{"type":"object","properties":{"a":{"type":"string","description":"d"}},"required":["a"]}}}],
      "messages":[{"role":"system","content":"zqsystem"},{"role":"user","content":"zquser"},
      {"role":"system","content":"zqreminder"},{"role":"assistant","content":"text","reasoning_content":"zqthought",
      "tool_calls":[{"id":"call_1","type":"function","function":{"name":"zqfirst","arguments":"{\"a\":\"zqone\"}"}},
      {"id":"call_2","type":"function","function":{"name":"zqfirst","arguments":"{\"a\":\"zqtwo\"}"}}]},
      {"role":"tool","tool_call_id":"call_2","content":"zqresult"},
      {"role":"tool","tool_call_id":"call_1","content":"zqother"}]})");
  const auto conversation = parse_openai_conversation(body);
  ASSERT_TRUE(conversation);
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    // It wants a variable `functions` and renders nothing without.
    if (entry.path().stem() == "fireworks-ai-llama-3-firefunction-v2") continue;
    const ChatFormat format = published(entry.path().stem());
    const auto rendered = format.render(*conversation, reference_now());
    ++n;
    if (!rendered) {
      ADD_FAILURE() << entry.path().stem() << ": " << rendered.error().message();
      continue;
    }
    // Nemo's shows the system message with the last message only, if that is a user's.
    const bool hides_system = entry.path().stem() == "mistralai-Mistral-Nemo-Instruct-2407";
    EXPECT_NE(rendered->text.find("zqsystem") != std::string::npos, hides_system) << entry.path().stem();
    for (const char* word : {"zquser", "zqreminder", "zqfirst", "zqone", "zqtwo", "zqresult", "zqother"}) {
      EXPECT_NE(rendered->text.find(word), std::string::npos) << entry.path().stem() << " lost " << word;
    }
  }
  EXPECT_GE(n, 55u);
}

}  // namespace
}  // namespace tempo9::chat
