// Whole answers: calls of declared tools, reasoning and content; and the cache of compiled grammars.
#include "grammar/answer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "grammar/cache.h"
#include "grammar/support.h"

namespace tempo9::grammar {
namespace {

using testing::allows;
using testing::Json;

using Calls = AnswerRules::Calls;
using Reasoning = AnswerRules::Reasoning;

const AnswerSyntax kHermes = {.reasoning = {.open = "<think>", .close = "</think>"},
                              .calls = {.heads = {{"<tool_call>\n{\"name\": \"", "\", \"arguments\": "}},
                                        .end = "}\n</tool_call>",
                                        .between = "\n",
                                        .marker = "<tool_call>",
                                        .marker_in_reasoning = "<tool_call>\n{"}};
const AnswerSyntax kMistral = {.reasoning = {},
                               .calls = {.first = "[TOOL_CALLS][",
                                         .heads = {{"{\"name\": \"", "\", \"arguments\": "}},
                                         .end = "}",
                                         .between = ", ",
                                         .last = "]",
                                         .marker = "[TOOL_CALLS]"}};
const AnswerSyntax kXml = {
    .reasoning = {},
    .calls = {
        .heads = {{"<function=", ">\n"}}, .arguments = Written::kXmlParameters, .end = "</function>", .between = "\n"}};
const AnswerSyntax kGemma = {
    .reasoning = {},
    .calls = {.heads = {{"call:", ""}}, .arguments = Written::kGemma, .end = ";", .closing = "<|tool_response>"}};
const AnswerSyntax kMessages = {
    .reasoning = {.open = "<|c|>think<|m|>",
                  .close = "<|end|>",
                  .behind = "<|start|>",
                  .may_repeat = true,
                  .excluded = {"<|m|>"}},
    .calls = {.heads = {{"<|c|>to=", "<|m|>"}, {" to=", "<|c|><|m|>"}}, .allows_several = false},
    .content_heads = {"<|c|>final<|m|>"},
    .header_end = "<|m|>",
    .address = "to=",
    .body_ends = {"<|end|>"}};

std::vector<ToolSignature> two_tools() {
  const Json city = Json::parse(R"({"type": "object", "properties": {"city": {"$ref": "#/$defs/name"}},
                                    "required": ["city"], "$defs": {"name": {"type": "string"}}})");
  const Json sum = Json::parse(R"({"type": "object", "properties": {"of": {"type": "array", "items":
                                   {"$ref": "#/$defs/name"}}}, "$defs": {"name": {"type": "integer"}}})");
  return {{"weather", city}, {"sum", sum, /*is_strict=*/true}};
}

std::shared_ptr<const Grammar> compile(const AnswerSyntax& syntax, const AnswerRules& rules) {
  auto grammar = compile_answer(syntax, rules);
  EXPECT_TRUE(grammar) << grammar.error().message();
  return grammar ? *grammar : nullptr;
}

std::shared_ptr<const Grammar> compile_calls(const AnswerSyntax& syntax, std::vector<ToolSignature> tools) {
  return compile(syntax, {.calls = Calls::kRequired, .tools = std::move(tools)});
}

// Of one tool named f with these parameters.
std::shared_ptr<const Grammar> compile_one(const AnswerSyntax& syntax, std::string_view parameters) {
  return compile_calls(syntax, {{"f", Json::parse(parameters)}});
}

const std::string kWeather = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
const std::string kSum = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"of\":[1,2]}}\n</tool_call>";

TEST(RequiredCalls, AreOfDeclaredToolsWithTheirArguments) {
  const auto grammar = compile_calls(kHermes, two_tools());
  EXPECT_TRUE(allows(grammar, kWeather));
  EXPECT_TRUE(allows(grammar, "\n" + kSum + "\n" + kWeather + "\n" + kSum));
  for (const char* text : {"", "Sure.", "<tool_call>\n{\"name\": \"other\"", "{\"name\": \"sum\"",
                           "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"city\"",
                           "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"of\":[\"a",
                           "<tool_call>\n{\"name\": \"weather\", \"arguments\": {}"}) {
    EXPECT_FALSE(allows(grammar, text)) << text;
  }
  Matcher matcher(grammar);
  EXPECT_FALSE(matcher.can_end());
  EXPECT_FALSE(matcher.accept(kWeather + " and more"));
}

TEST(RequiredCalls, MayBeLimitedToOneAndToOneTool) {
  AnswerSyntax one = kHermes;
  one.calls.allows_several = false;
  EXPECT_TRUE(allows(compile_calls(one, two_tools()), kSum));
  EXPECT_FALSE(allows(compile_calls(one, two_tools()), kSum + "\n" + kSum));
  const auto named = compile_calls(kHermes, {two_tools()[1]});
  EXPECT_TRUE(allows(named, kSum));
  EXPECT_FALSE(allows(named, kWeather));
}

TEST(RequiredCalls, MayStandInAList) {
  const auto grammar = compile_calls(kMistral, two_tools());
  const std::string sum = R"({"name": "sum", "arguments": {}})";
  EXPECT_TRUE(allows(grammar, "[TOOL_CALLS][" + sum + "]"));
  EXPECT_TRUE(allows(grammar, "[TOOL_CALLS][" + sum + ", " + sum + "]"));
  EXPECT_FALSE(allows(grammar, "[TOOL_CALLS][]"));
  EXPECT_FALSE(allows(grammar, "[TOOL_CALLS][" + sum));
}

TEST(RequiredCalls, FaultsNameTheTool) {
  std::vector<ToolSignature> tools = two_tools();
  tools[1].parameters["properties"]["of"]["type"] = "list";
  AnswerRules rules{.calls = Calls::kRequired, .tools = tools};
  EXPECT_EQ(compile_answer(kHermes, rules).error().message(),
            "tool sum: schema #/properties/of/type: \"list\" is no type");
  rules.tools[1].parameters = Json{{"type", "object"}, {"minProperties", 1}};
  EXPECT_EQ(compile(kHermes, rules)->not_enforced(), (std::vector<std::string>{"tool sum #: minProperties"}));
  rules.tools.clear();
  EXPECT_EQ(compile_answer(kHermes, rules).error().message(), "there is no tool to call");
}

TEST(RequiredCalls, ComeBehindReasoningWhichEndsWhereTheyBegin) {
  AnswerRules rules{.reasoning = Reasoning::kOpen, .calls = Calls::kRequired, .tools = two_tools()};
  const auto open = compile(kHermes, rules);
  EXPECT_TRUE(allows(open, "The <tool_call> tag? 中 <</thin </think>\n\n" + kSum));
  EXPECT_TRUE(allows(open, "Now " + kSum));
  for (const std::string& text : {std::string("Only thoughts"), std::string("Now <tool_call>{"), kSum + "</think>",
                                  std::string("</think>Sure")}) {
    EXPECT_FALSE(allows(open, text)) << text;
  }
  EXPECT_FALSE(Matcher(open).accept("Now <tool_call>\n{\"name\": \"other"));
  for (const char* like_a_call :
       {"Now <tool_call>{", "Now <tool_call> {", "Now <tool_call>\n\n{", "Now <tool_call> <"}) {
    EXPECT_FALSE(Matcher(open).accept(like_a_call)) << like_a_call;
  }
  rules.reasoning = Reasoning::kMaybe;
  const auto maybe = compile(kHermes, rules);
  EXPECT_TRUE(allows(maybe, kSum));
  EXPECT_TRUE(allows(maybe, "<think>\nHm.\n</think>\n\n" + kSum));
  EXPECT_FALSE(allows(maybe, "Hm.</think>" + kSum));
}

TEST(RequiredCalls, OfMessagesMayFollowReasoningMessages) {
  const auto grammar =
      compile(kMessages, {.reasoning = Reasoning::kMaybe, .calls = Calls::kRequired, .tools = two_tools()});
  const std::string thought = "<|c|>think<|m|>to=sum<|end|><|start|>";
  for (const char* begin : {"<|c|>to=sum<|m|>", " to=sum<|c|><|m|>"}) {
    EXPECT_TRUE(allows(grammar, begin + std::string("{\"of\": [1]}")));
    EXPECT_TRUE(allows(grammar, thought + thought + begin + "{}"));
    EXPECT_FALSE(allows(grammar, begin + std::string("{\"of\": [true")));
  }
  EXPECT_FALSE(Matcher(grammar).accept("<|c|>think<|m|>a<|m|>"));
  EXPECT_FALSE(Matcher(grammar).accept("<|c|>final<|m|>"));
}

TEST(ContentAndCalls, AreOneOrTheOther) {
  AnswerRules rules{.calls = Calls::kMaybe, .tools = two_tools(), .content_schema = Json{{"type", "integer"}}};
  const auto grammar = compile(kHermes, rules);
  EXPECT_TRUE(allows(grammar, kSum + "\n" + kWeather));
  EXPECT_TRUE(allows(grammar, " 12"));
  for (const std::string& text : {"12" + kSum, kSum + "12", std::string("true"), std::string()}) {
    EXPECT_FALSE(allows(grammar, text)) << text;
  }
  const auto messages = compile(kMessages, rules);
  EXPECT_TRUE(allows(messages, "<|c|>final<|m|>12"));
  EXPECT_TRUE(allows(messages, " to=sum<|c|><|m|>{}"));
  EXPECT_FALSE(allows(messages, "12"));
  rules.tools[0].parameters["type"] = "list";  // it is not forced, so that it need not be held
  EXPECT_TRUE(allows(compile(kHermes, rules), kSum));
  EXPECT_EQ(compile(kHermes, rules)->not_enforced().size(), 1u);
}

TEST(LazyCalls, AreHeldWhereTheyBeginAndNothingElseIs) {
  AnswerRules rules{.calls = Calls::kLazy, .tools = two_tools()};
  rules.tools[0].is_free = true;
  const auto grammar = compile(kHermes, rules);
  const std::string free = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"x\": [{}]}}\n</tool_call>";
  for (const std::string& text : {std::string(), std::string("{\"name\": 3} </tool_call> <tool_"), "Well: " + kSum,
                                  kSum + "\n\n" + free + " So.", "<think>" + kSum + "</think>" + kSum}) {
    EXPECT_TRUE(allows(grammar, text)) << text;
  }
  Matcher matcher(grammar);
  ASSERT_TRUE(matcher.accept("Well: <tool_call>"));
  EXPECT_FALSE(matcher.can_end());
  EXPECT_FALSE(matcher.accept("\n{\"name\": \"sum\", \"arguments\": {\"city"));
  EXPECT_FALSE(matcher.accept("\n{\"name\": \"other"));
  AnswerSyntax one = kHermes;
  one.calls.allows_several = false;
  EXPECT_FALSE(Matcher(compile(one, rules)).accept(kSum + " "));
}

TEST(LazyCalls, MayBeginInReasoning) {
  const auto grammar = compile(kHermes, {.reasoning = Reasoning::kOpen, .calls = Calls::kLazy, .tools = two_tools()});
  EXPECT_TRUE(allows(grammar, "I use <tool_call> for this."));
  EXPECT_TRUE(allows(grammar, "Hm. " + kSum + "\nDone."));
  EXPECT_TRUE(allows(grammar, "Hm.</think>\n\nWell. " + kSum));
  EXPECT_FALSE(Matcher(grammar).accept("Hm. <tool_call>\n{\"name\": \"other"));
}

TEST(LazyCalls, WithoutAMarkerBeginAnAnswer) {
  const AnswerSyntax llama = {.reasoning = {},
                              .calls = {.heads = {{"{\"name\": \"", "\", \"parameters\": "}},
                                        .end = "}",
                                        .allows_several = false,
                                        .marker = "<|python_tag|>"}};
  const auto grammar = compile(llama, {.calls = Calls::kLazy, .tools = two_tools()});
  const std::string sum = "{\"name\": \"sum\", \"parameters\": {}}";
  for (const std::string& text : {std::string(), sum, "<|python_tag|>" + sum, std::string("Such as {\"name\": 1}")}) {
    EXPECT_TRUE(allows(grammar, text)) << text;
  }
  EXPECT_FALSE(Matcher(grammar).accept("{\"name\": \"other"));
  EXPECT_FALSE(Matcher(grammar).accept("See <|python_tag|>x"));
}

TEST(LazyCalls, OfMessagesAreFoundInTheirHeaders) {
  AnswerRules rules{.calls = Calls::kLazy, .tools = two_tools()};
  rules.tools.push_back({"summary", Json{{"type", "object"}}});
  const auto grammar = compile(kMessages, rules);
  for (const char* text : {"<|c|>think<|m|>to=sum <|end|><|c|>final<|m|>to=sum{", "<|c|>to=sum <|m|>{\"of\":[2]}",
                           " to=summary<|c|><|m|>{\"x\": 1}", "<|c|>to=other<|m|>print(1)<|end|>"}) {
    EXPECT_TRUE(allows(grammar, text)) << text;
  }
  EXPECT_FALSE(Matcher(grammar).accept("<|c|>think<|m|>a<|end|><|c|>to=sum<|m|>{\"x"));
}

TEST(XmlArguments, AreTextOrJsonByTheirTypes) {
  const auto grammar = compile_one(kXml, R"({"type": "object", "properties": {
      "note": {"type": "string"}, "n": {"type": "integer"}, "mode": {"enum": ["a b", 3]},
      "tags": {"type": "array", "items": {"type": "string"}}, "any": {}}, "required": ["n"]})");
  const std::string n = "<parameter=n>\n5\n</parameter>\n";
  const auto whole = [](const std::string& parameters) { return "<function=f>\n" + parameters + "</function>"; };
  EXPECT_TRUE(allows(grammar, whole(n)));
  EXPECT_TRUE(allows(grammar, whole(n) + "\n" + whole(n)));
  for (const char* note : {"\n", "", "a <b> & \"c\" \\ é\n\n</param", "x</parameter"}) {
    EXPECT_TRUE(allows(grammar, whole(n + "<parameter=note>\n" + note + "\n</parameter>\n"))) << note;
  }
  for (const char* mode : {"a b", "3"}) {
    EXPECT_TRUE(allows(grammar, whole(n + "<parameter=mode>\n" + mode + "\n</parameter>\n"))) << mode;
  }
  EXPECT_TRUE(allows(grammar, whole(n + "<parameter=tags>\n[\"a\", \"b\"]\n</parameter>\n"
                                        "<parameter=any>\nwhat ever\n</parameter>\n")));
  for (const char* text :
       {"</function>", "<parameter=n>\nx", "<parameter=note>", "<parameter=n>\n5\n</parameter>\n<parameter=n>",
        "<parameter=n>\n5\n</parameter>\n<parameter=mode>\n\"a", "<parameter=n>\n5\n</parameter>\n<parameter=x>",
        "<parameter=n>\n5\n</parameter>\n<parameter=note>\n<parameter=",
        "<parameter=n>\n5\n</parameter>\n<parameter=note>\na</function>"}) {
    EXPECT_FALSE(Matcher(grammar).accept(std::string("<function=f>\n") + text)) << text;
  }
}

TEST(XmlArguments, JsonInThemHoldsNoEndOfAParameter) {
  const auto grammar = compile_one(kXml, R"({"type": "object", "properties": {"tags": {"type": "array", "items":
      {"type": "string", "maxLength": 14}}}, "required": ["tags"]})");
  const auto allows_text = [&](const std::string& text) {
    return allows(grammar, "<function=f>\n<parameter=tags>\n[\"" + text + "\"]\n</parameter>\n</function>");
  };
  for (const char* text : {"", "<b>", "</parameter", "\\u003c/functio\\n", "\\\"<\\\\</p", "12345678901234"}) {
    EXPECT_TRUE(allows_text(text)) << text;
  }
  for (const char* text : {"</parameter>", "</function>", "\n", "123456789012345", "\\x", "a</</function>"}) {
    EXPECT_FALSE(allows_text(text)) << text;
  }
}

TEST(XmlArguments, LimitsCountTheTextAlone) {
  const auto grammar = compile_one(kXml, R"({"type": "object", "properties": {
      "s": {"type": "string", "minLength": 2, "maxLength": 4}}, "required": ["s"]})");
  const auto allows_text = [&](const std::string& text) {
    return allows(grammar, "<function=f>\n<parameter=s>\n" + text + "\n</parameter>\n</function>");
  };
  for (const char* text : {"ab", "éééé", "\n\n", "</pa", "a\nb"}) EXPECT_TRUE(allows_text(text)) << text;
  for (const char* text : {"", "a", "abcde", "ab\n</p", "abcd\n"}) EXPECT_FALSE(allows_text(text)) << text;
  EXPECT_FALSE(Matcher(grammar).accept("<function=f>\n<parameter=s>\nabcd</f"));
}

TEST(XmlArguments, MayBeOfAnyObject) {
  for (const char* schema :
       {"{}", R"({"type": "object"})", R"({"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}})"}) {
    const auto grammar = compile_one(kXml, schema);
    EXPECT_TRUE(allows(grammar, "<function=f>\n</function>")) << schema;
    EXPECT_TRUE(allows(grammar, "<function=f>\n<parameter=k>\nv\n</parameter>\n</function>")) << schema;
  }
  EXPECT_FALSE(Matcher(compile_one(kXml, R"({"type": "object", "properties": {"a": {}}})"))
                   .accept("<function=f>\n<parameter=b>"));
  EXPECT_EQ(compile_answer(kXml, {.calls = Calls::kRequired, .tools = {{"f", {{"type", "array"}}}}}).error().message(),
            "schema: no value satisfies it");
}

TEST(GemmaArguments, HaveTheirOwnQuotes) {
  const auto grammar = compile_one(kGemma, R"({"type": "object", "properties": {
      "s": {"type": "string", "maxLength": 6}, "n": {"type": ["integer", "null"]}, "p": {"pattern": "^a+$"},
      "o": {"type": "object", "properties": {"x y": {"enum": ["q", 1, {"k": "v"}]}}, "additionalProperties": false},
      "a": {"type": "array", "items": {"type": "boolean"}}}, "required": ["s"], "additionalProperties": false})");
  for (const char* text :
       {"{s:<|\"|>a}\"\n<|<|\"|>}", "{a:[true,false],n:null,o:{<|\"|>x y<|\"|>:<|\"|>q<|\"|>},s:<|\"|><|\"|>}",
        "{o:{<|\"|>x y<|\"|>:{k:<|\"|>v<|\"|>}},p:<|\"|>aa<|\"|>,s:<|\"|>b<|\"|>}"}) {
    EXPECT_TRUE(allows(grammar, "call:f" + std::string(text) + ";")) << text;
    EXPECT_TRUE(allows(grammar, "call:f" + std::string(text) + ";<|tool_response>")) << text;
  }
  for (const char* text : {"{}", "{s:b", "{s:\"b", "{s: ", "{n:<|", "{s:<|\"|>b<tool_call|>", "{s:<|\"|>1234567",
                           "{s:<|\"|>b<|\"|>,n", "{p:<|\"|>b", "{x"}) {
    EXPECT_FALSE(allows(grammar, "call:f" + std::string(text) + ";")) << text;
  }
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

// Tokens of up to six pieces, in which text, what ends it and parts of characters stand side by side.
std::vector<std::string> mixed_tokens() {
  const std::vector<std::string> pieces = {
      "a",    "\n",           "<",     "/",  "parameter", ">",          "\"", "\\",        "|",       "é", "\xE4\xB8",
      "\xAD", "\xEF\xBF\xBD", " city", "\r", "function",  "</function", "=",  "tool_call", "<think>", "}", "😀",
      "\xFF"};
  std::vector<std::string> tokens = pieces;
  std::mt19937 random(1);
  while (tokens.size() < 3000) {
    std::string token;
    for (size_t n = 2 + random() % 5; n > 0; --n) token += pieces[random() % pieces.size()];
    tokens.push_back(token);
  }
  return tokens;
}

TEST(Answer, MasksInTextEqualTryingEachToken) {
  const std::vector<std::string> tokens = mixed_tokens();
  const TokenTrie trie(static_cast<int64_t>(tokens.size()),
                       [&](int32_t id) -> std::string_view { return tokens[static_cast<size_t>(id)]; });
  TokenMask mask(trie.n_tokens());
  const Json limited = Json::parse(R"({"type": "object", "properties": {"city": {"type": "string", "minLength": 2,
                                       "maxLength": 24}}, "required": ["city"]})");
  const AnswerRules::Calls lazy = Calls::kLazy;
  const std::vector<ToolSignature> tools = {{"weather", limited}};
  const std::string value = "a\n</a\r\n<parameter> \"é|} b";
  const std::pair<std::shared_ptr<const Grammar>, std::string> all[] = {
      {compile_calls(kXml, two_tools()), "<function=weather>\n<parameter=city>\n" + value},
      {compile_calls(kXml, tools), "<function=weather>\n<parameter=city>\na\n</a \"é|} b"},
      {compile_calls(kGemma, two_tools()), "call:weather{city:<|\"|>" + value},
      {compile_calls(kGemma, tools), "call:weather{city:<|\"|>a\n</a <\"é|} b"},
      {compile(kHermes, {.reasoning = Reasoning::kMaybe, .calls = lazy, .tools = tools}), "<think>" + value},
      {compile_calls(kHermes, tools), "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"a</ab"}};
  for (const auto& [grammar, text] : all) {
    Matcher matcher(grammar);
    for (const char byte : text) {
      matcher.allowed_tokens(trie, mask);
      for (size_t id = 0; id < tokens.size(); ++id) {
        ASSERT_EQ(mask.has(static_cast<int32_t>(id)), Matcher(matcher).accept(tokens[id])) << text << "\n"
                                                                                           << tokens[id];
      }
      ASSERT_TRUE(matcher.accept({&byte, 1})) << text;
    }
  }
}

}  // namespace
}  // namespace tempo9::grammar
