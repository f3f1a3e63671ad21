// What holds for every dialect and every text: cuts do not matter, values come back as they were written, nothing is
// lost and nothing hangs.
#include <gtest/gtest.h>

#include <random>

#include "chat/json_text.h"
#include "chat/template_support.h"
#include "chat/tools/json_strings.h"
#include "chat/tools/parse_support.h"
#include "support/data.h"

namespace tempo9::chat::tools {
namespace {

using namespace testing;

std::shared_ptr<const ToolSet> test_tools() {
  const Json tools = Json::parse(R"([
      {"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":
        {"city":{"type":"string"},"days":{"type":"integer"},"metric":{"type":"boolean"}}}}},
      {"type":"function","function":{"name":"write_file","parameters":{"type":"object","properties":
        {"path":{"type":"string"},"text":{"type":"string"},"tags":{"type":"array"}}}}},
      {"type":"function","function":{"name":"python","parameters":{"type":"object","properties":
        {"code":{"type":"string"}}}}}])");
  return std::make_shared<ToolSet>(tools.get<std::vector<Json>>());
}

// How a dialect writes one call, as its models do; `arguments` has strings only.
using WriteCall = std::string (*)(const std::string& name, const Json& arguments);

std::string hermes_call(const std::string& name, const Json& arguments) {
  return "<tool_call>\n{\"name\": " + quote_json(name) + ", \"arguments\": " + arguments.dump() + "}\n</tool_call>";
}
std::string xml_call(const std::string& name, const Json& arguments) {
  std::string text = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : arguments.items()) {
    text += "<parameter=" + key + ">\n" + value.get<std::string>() + "\n</parameter>\n";
  }
  return text + "</function>\n</tool_call>";
}
std::string llama_call(const std::string& name, const Json& arguments) {
  return "{\"name\": " + quote_json(name) + ", \"parameters\": " + arguments.dump() + "}";
}
std::string mistral_list(const std::string& name, const Json& arguments) {
  return "[TOOL_CALLS] [{\"name\": " + quote_json(name) + ", \"arguments\": " + arguments.dump() + "}]";
}
std::string mistral_named(const std::string& name, const Json& arguments) {
  return "[TOOL_CALLS]" + name + "[ARGS]" + arguments.dump();
}
std::string harmony_call(const std::string& name, const Json& arguments) {
  return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + arguments.dump() + "<|call|>";
}
std::string gemma_call(const std::string& name, const Json& arguments) {
  std::string text = "<|tool_call>call:" + name + "{";
  for (const auto& [key, value] : arguments.items()) {
    if (text.back() != '{') text += ",";
    text += key + ":<|\"|>" + value.get<std::string>() + "<|\"|>";
  }
  return text + "}<tool_call|>";
}

struct Form {
  const char* dialect;
  WriteCall write_call;
};
constexpr Form kForms[] = {{"hermes-json", hermes_call}, {"generic", hermes_call},       {"qwen-xml", xml_call},
                           {"llama3", llama_call},       {"mistral-json", mistral_list}, {"mistral-v13", mistral_named},
                           {"harmony", harmony_call},    {"gemma4", gemma_call}};

TEST(AnswerParser, EveryCutGivesTheSameAnswer) {
  const Json arguments = {{"path", "a \"b\" \u00e9\U0001F600"},
                          {"text", "if (a < b && c) {\n\treturn \"}\";\\n\n} </p>"}};
  for (const Form& form : kForms) {
    const std::string call = form.write_call("write_file", arguments);
    for (const EndReason end : {EndReason::kStop, EndReason::kLength}) {
      ParseCase c{.dialect = find_dialect(form.dialect), .text = call + "\n" + call, .tools = test_tools(), .end = end};
      const Answer whole = parse_cut(c, {});
      ASSERT_EQ(whole.calls.size(), 2u) << form.dialect;
      for (size_t cut = 1; cut < c.text.size(); ++cut) ASSERT_EQ(parse_cut(c, {cut}), whole) << form.dialect << cut;
      for (size_t chunk = 1; chunk < 20; ++chunk) ASSERT_EQ(parse_chunked(c, chunk), whole) << form.dialect;
    }
  }
}

// A text that breaks off anywhere: what was sent is a beginning of what would have been, in every dialect.
TEST(AnswerParser, WhatACutAnswerSentIsABeginningOfTheWhole) {
  const Json arguments = {{"path", "a/b.txt"}, {"text", "line 1\n\"line\" 2\n"}};
  for (const Form& form : kForms) {
    ParseCase c{
        .dialect = find_dialect(form.dialect), .text = form.write_call("write_file", arguments), .tools = test_tools()};
    const Answer whole = parse_cut(c, {});
    ASSERT_EQ(whole.calls.size(), 1u) << form.dialect;
    const std::string text = c.text;
    c.end = EndReason::kLength;
    for (size_t n = 0; n < text.size(); ++n) {
      c.text = text.substr(0, n);
      const Answer cut = parse_cut(c, {});
      if (cut.calls.empty()) continue;
      ASSERT_EQ(cut.calls.size(), 1u);
      EXPECT_EQ(cut.content, "") << form.dialect << " " << c.text;
      EXPECT_TRUE(whole.calls[0].arguments.starts_with(cut.calls[0].arguments)) << cut.calls[0].arguments;
      EXPECT_TRUE(cut.is_incomplete || cut.calls[0].arguments == whole.calls[0].arguments) << form.dialect << c.text;
    }
  }
}

TEST(AnswerParser, StringsComeBackByteForByte) {
  const std::vector<std::string> parts = {
      "<",   ">",  "&amp;", "\"",         "'",  "\\",   "\\n",    "\n",         "\t",     "{",     "}",
      "[",   "]",  ", ",    ":",          "42", "null", "\u00e9", "\U0001F600", "\u4e2d", "</b>",  "<tool>",
      "```", "  ", "\x07",  "</paramete", "<|", "|>",   "[ARGS",  "<think",     "x",      "rm -rf"};
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Json arguments = Json::object();
    for (const char* key : {"path", "text", "extra"}) {
      std::string value = "v";
      for (size_t n = random() % 12; n > 0; --n) value += parts[random() % parts.size()];
      arguments[key] = value + "w";
    }
    for (const Form& form : kForms) {
      ParseCase c{.dialect = find_dialect(form.dialect),
                  .text = form.write_call("write_file", arguments),
                  .tools = test_tools()};
      const Answer answer = parse_chunked(c, 1 + random() % 5);
      ASSERT_EQ(answer.calls.size(), 1u) << form.dialect << " " << c.text;
      const auto parsed = parse_json_text(answer.calls[0].arguments);
      ASSERT_TRUE(parsed) << form.dialect << " " << answer.calls[0].arguments;
      EXPECT_EQ(*parsed, arguments) << form.dialect << " " << c.text;
      EXPECT_EQ(answer.content, "");
    }
  }
}

// Pieces of every dialect's markup in any order.
std::string random_markup(std::mt19937& random) {
  static constexpr const char* kPieces[] = {"<tool_call>",
                                            "</tool_call>",
                                            "<function=weather>",
                                            "</function>",
                                            "<parameter=city>",
                                            "<parameter=days>",
                                            "</parameter>",
                                            "<think>",
                                            "</think>",
                                            "{\"name\": \"weather\", \"arguments\": ",
                                            "{\"city\": \"Oslo\"",
                                            "}",
                                            "}}",
                                            "\"days\": \"3\"",
                                            ",",
                                            "{",
                                            "[",
                                            "]",
                                            "\"",
                                            "\\",
                                            "\\u00",
                                            "\n",
                                            "\r\n",
                                            " ",
                                            "text",
                                            "3",
                                            "1.0",
                                            "null",
                                            "```json\n",
                                            "```",
                                            "```tool_code\n",
                                            "weather(city='Oslo')",
                                            "\n```",
                                            "print(",
                                            ")",
                                            "<|python_tag|>",
                                            "weather.call(",
                                            ";",
                                            "[TOOL_CALLS]",
                                            "[ARGS]",
                                            "[CALL_ID]",
                                            "[THINK]",
                                            "[/THINK]",
                                            "weather",
                                            "<|channel|>",
                                            "final",
                                            "analysis",
                                            "commentary to=functions.weather",
                                            "<|message|>",
                                            "<|end|>",
                                            "<|call|>",
                                            "<|start|>assistant",
                                            "<|tool_call>",
                                            "call:weather{",
                                            "city:",
                                            "<|\"|>",
                                            "<tool_call|>",
                                            "<|channel>thought\n",
                                            "<channel|>",
                                            "<turn|>",
                                            "<tool_response>",
                                            "'",
                                            "(",
                                            "<",
                                            "\xc3\xa9",
                                            "\xf0\x9f\x98\x80",
                                            "\xff"};
  std::string text;
  for (size_t n = 1 + random() % 25; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
  return text;
}

TEST(AnswerParser, CutsDoNotMatterForAnyMarkup) {
  std::mt19937 random(17);
  const auto tools = test_tools();
  for (int round = 0; round < 1500; ++round) {
    const std::string text = random_markup(random);
    for (const Dialect* dialect : all_dialects()) {
      ParseCase c{.dialect = dialect, .text = text, .tools = round % 10 == 0 ? nullptr : tools};
      if (round % 3 == 0) c.start = Start::kInReasoning;
      if (round % 2 == 0) c.end = EndReason::kLength;
      c.parallel_calls = round % 7 != 0;
      const Answer whole = parse_cut(c, {});
      ASSERT_EQ(parse_chunked(c, 1), whole) << dialect->name << ": " << text;
      ASSERT_EQ(parse_chunked(c, 1 + random() % 9), whole) << dialect->name << ": " << text;
    }
  }
}

TEST(AnswerParser, TextWithoutMarkupIsPassedAsItIs) {
  const std::string text = "A < B && C > D; `x` [1] {2} \"q\" \\ 50%\n\n\ttab \u00e9\U0001F600";
  for (const Dialect* dialect : all_dialects()) {
    const std::string head = dialect->name == "harmony" ? "<|channel|>final<|message|>" : "";
    const Answer answer = parse_chunked({.dialect = dialect, .text = head + text, .tools = test_tools()}, 1);
    EXPECT_EQ(answer.content, text) << dialect->name;
  }
}

// Content comes at once, not at the end: only what may become a marker is held back.
TEST(AnswerParser, TextIsNotHeldBack) {
  for (const Dialect* dialect : all_dialects()) {
    if (dialect->name == "harmony") continue;
    AnswerParser parser(*dialect, {.tools = test_tools()});
    Answer answer;
    join(answer, parser.feed("Hello there"));
    EXPECT_EQ(answer.content, "Hello there") << dialect->name;
    join(answer, parser.feed(" <"));
    join(answer, parser.feed("b>"));
    EXPECT_EQ(answer.content, "Hello there <b>") << dialect->name;
  }
}

TEST(AnswerParser, StringsOfACallStream) {
  for (const Form& form : kForms) {
    const std::string text = form.write_call("write_file", {{"path", "p"}, {"text", "0123456789 abcdefghij"}});
    AnswerParser parser(*find_dialect(form.dialect), {.tools = test_tools()});
    Answer answer;
    join(answer, parser.feed(text.substr(0, text.find("abcdef") + 3)));
    ASSERT_EQ(answer.calls.size(), 1u) << form.dialect;
    EXPECT_TRUE(answer.calls[0].arguments.ends_with("0123456789 abc")) << form.dialect << answer.calls[0].arguments;
  }
}

TEST(AnswerParser, EventsOfACallComeInOrder) {
  using Kind = AnswerEvent::Kind;
  AnswerParser parser(*find_dialect("hermes-json"), {.tools = test_tools()});
  std::vector<AnswerEvent> events;
  for (const char c : hermes_call("weather", {{"city", "Oslo"}}) + hermes_call("python", {{"code", "1"}})) {
    for (AnswerEvent& event : parser.feed({&c, 1})) events.push_back(std::move(event));
  }
  int32_t call = -1;
  bool is_open = false;
  for (const AnswerEvent& event : events) {
    if (event.kind == Kind::kCallBegin) {
      EXPECT_FALSE(is_open);
      ++call;
    }
    EXPECT_EQ(event.call, call);
    is_open = event.kind != Kind::kCallEnd;
    EXPECT_EQ(event.text.empty(), event.kind == Kind::kCallEnd);
  }
  EXPECT_EQ(call, 1);
  EXPECT_FALSE(is_open);
}

// The work grows with the text, not with its square: what a parser likes least.
TEST(AnswerParser, LongTextsTakeLinearTime) {
  const std::string many_tags = [] {
    std::string text;
    while (text.size() < 100'000) text += "<tool_call>\n<function=weather>\n";
    return text;
  }();
  const std::vector<std::string> texts = {
      std::string(100'000, '{'),
      std::string(100'000, '<'),
      std::string(100'000, '\n'),
      "{\"name\": \"" + std::string(100'000, 'x'),
      "<tool_call>{\"name\": \"weather\", \"arguments\": " + std::string(100'000, '['),
      "[TOOL_CALLS]" + std::string(100'000, ' '),
      many_tags};
  for (const std::string& text : texts) {
    for (const Dialect* dialect : all_dialects()) {
      const ParseCase c{.dialect = dialect, .text = text, .tools = test_tools()};
      parse_chunked(c, 4);
    }
  }
}

TEST(Dialects, AreChosenByTheTemplate) {
  const std::pair<const char*, const char*> kExpected[] = {{"<|start|>system<|channel|>analysis<|message|>", "harmony"},
                                                           {"<|tool_call>call:", "gemma4"},
                                                           {"[TOOL_CALLS]name[ARGS]", "mistral-v13"},
                                                           {"[TOOL_CALLS] [", "mistral-json"},
                                                           {"<tool_call>\n<function=x>", "qwen-xml"},
                                                           {"<tool_call>\n{", "hermes-json"},
                                                           {"Environment: ipython", "llama3"},
                                                           {"<start_of_turn>user", "generic"},
                                                           {"", "generic"}};
  for (const auto& [text, name] : kExpected) EXPECT_EQ(choose_dialect(text).name, name) << text;
}

TEST(Dialects, OfThePublishedTemplates) {
  const std::string folder = tempo9::testing::reference_path("templates/");
  T9_NEED_DATA(folder);
  const std::pair<const char*, const char*> kExpected[] = {{"Qwen-Qwen3-0.6B", "hermes-json"},
                                                           {"meta-llama-Llama-3.2-3B-Instruct", "llama3"},
                                                           {"google-gemma-2-2b-it", "generic"}};
  for (const auto& [file, name] : kExpected) {
    EXPECT_EQ(choose_dialect(chat::testing::read_text(folder + file + ".jinja")).name, name) << file;
  }
}

TEST(AnswerParser, ContentThatASchemaHoldsIsNoCallWhateverItLooksLike) {
  const auto tools = std::make_shared<const ToolSet>(
      std::vector<Json>{{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}}});
  const std::string json = R"({"name": "f", "arguments": {"x": "<tool_call>[TOOL_CALLS]</think>"}})";
  const std::string call = R"({"name": "f", "arguments": {}})";
  for (const char* name : {"hermes-json", "generic", "qwen-xml", "mistral-json", "mistral-v13"}) {
    const Dialect& dialect = *find_dialect(name);
    const auto parse = [&](const std::string& text) {
      AnswerParser parser(dialect, {.tools = tools, .content_is_json = true});
      testing::Answer answer;
      for (const char c : text) testing::join(answer, parser.feed({&c, 1}));
      testing::join(answer, parser.finish(EndReason::kStop));
      return answer;
    };
    EXPECT_EQ(parse("\n" + json).content, json) << name;
    EXPECT_EQ(parse("[" + json + "]").content, "[" + json + "]") << name;
    const bool is_mistral = std::string_view(name).starts_with("mistral");
    const testing::Answer called =
        parse(is_mistral ? "[TOOL_CALLS][" + call + "]" : "<tool_call>\n" + call + "\n</tool_call>");
    ASSERT_EQ(called.calls.size(), 1u) << name;
    EXPECT_EQ(called.calls[0].arguments, "{}") << name;
  }
}

TEST(AnswerParser, AClosingTagThatStandsAloneIsDroppedAtTheBeginningOnly) {
  const std::string call = "<tool_call>\n<function=weather>\n</function>\n</tool_call>";
  const auto content = [&](const std::string& text, Start start, std::shared_ptr<const ToolSet> tools) {
    return parse_chunked({.dialect = find_dialect("qwen-xml"), .text = text, .tools = tools, .start = start}, 1)
        .content;
  };
  for (const auto& tools : {test_tools(), std::shared_ptr<const ToolSet>()}) {
    EXPECT_EQ(content("</think>\n\nHello", Start::kMaybeReasoning, tools), "Hello");
    EXPECT_EQ(content("\n </think>Hello", Start::kMaybeReasoning, tools), "Hello");
    EXPECT_EQ(content("</think></think>Hello", Start::kMaybeReasoning, tools), "</think>Hello");
    EXPECT_EQ(content("Hello</think>\n\nyou", Start::kMaybeReasoning, tools), "Hello</think>\n\nyou");
    EXPECT_EQ(content("Hm.</think>Hello</think>", Start::kInReasoning, tools), "Hello</think>");
  }
  EXPECT_EQ(content("Hm." + call + "</think>\n\nHello", Start::kInReasoning, test_tools()), "Hello");
  EXPECT_EQ(content(call + "</think>\n\nHello", Start::kMaybeReasoning, test_tools()), "</think>\n\nHello");
}

// A small model wrote these. What was meant cannot be told, so nothing is made up from it, and the parameters that can
// be read are not lost with it.
TEST(AnswerParser, AParameterTagWithoutItsEndIsNone) {
  const std::string begin = "<tool_call>\n<function=weather>\n", end = "</function>\n</tool_call>";
  const std::string days = "<parameter=days>\n3\n</parameter>\n",
                    broken = "<parameter=city = in my coffee\n</parameter>\n";
  for (const std::string& text : {begin + broken + days + end, begin + days + broken + end,
                                  begin + "<parameter=city Oslo</parameter>\n" + days + end}) {
    const testing::Answer answer =
        parse_chunked({.dialect = find_dialect("qwen-xml"), .text = text, .tools = test_tools()}, 3);
    ASSERT_EQ(answer.calls.size(), 1u) << text;
    EXPECT_EQ(answer.calls[0].arguments, R"({"days":3})") << text;
    EXPECT_FALSE(answer.is_incomplete) << text;
  }
}

}  // namespace
}  // namespace tempo9::chat::tools
