#include "chat/chat_format.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "chat/known_templates.h"
#include "chat/openai_messages.h"
#include "chat/prompt_tokens.h"
#include "gguf/file.h"
#include "support/data.h"
#include "template_support.h"

namespace tempo9::chat {
namespace {

using namespace testing;

// Bytes are tokens, and a few control tokens stand behind them.
class ByteTokenizer : public tokenizer::Tokenizer {
 public:
  static constexpr int32_t kBos = 256, kEos = 257, kStart = 258;

  bool adds_bos_flag = true;
  std::vector<std::string> control = {"<s>", "</s>", "<|im_start|>"};

  Result<std::vector<int32_t>> encode(std::string_view text, const tokenizer::EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    for (size_t pos = 0; pos < text.size();) {
      const int32_t id = control_at(text, pos, options);
      ids.push_back(id >= 0 ? id : static_cast<uint8_t>(text[pos]));
      pos += id >= 0 ? token_text(id).size() : 1;
    }
    return ids;
  }
  int64_t n_tokens() const override { return 259; }
  std::string_view piece(int32_t, bool) const override { return {}; }
  std::string_view token_text(int32_t id) const override {
    return id < kBos ? std::string_view() : control[static_cast<size_t>(id - kBos)];
  }
  tokenizer::TokenType type(int32_t) const override { return tokenizer::TokenType::kNormal; }
  std::string decode(std::span<const int32_t>, bool) const override { return {}; }
  std::optional<int32_t> bos() const override { return kBos; }
  std::optional<int32_t> eos() const override { return kEos; }
  bool adds_bos() const override { return adds_bos_flag; }
  bool adds_eos() const override { return false; }
  bool is_end_of_generation(int32_t) const override { return false; }
  std::span<const int32_t> suppressed() const override { return {}; }
  std::string description() const override { return "bytes"; }

 private:
  int32_t control_at(std::string_view text, size_t pos, const tokenizer::EncodeOptions& options) const {
    if (!options.parse_special) return -1;
    for (size_t i = 0; i < control.size(); ++i) {
      const size_t end = pos + control[i].size();
      if (!text.substr(pos).starts_with(control[i])) continue;
      if (!options.special_allowed) return kBos + static_cast<int32_t>(i);
      for (auto range : *options.special_allowed)
        if (range.begin <= pos && end <= range.end) return kBos + static_cast<int32_t>(i);
    }
    return -1;
  }
};

gguf::Metadata metadata_with(const std::map<std::string, std::string>& entries) {
  gguf::Metadata metadata;
  for (const auto& [key, value] : entries) EXPECT_TRUE(metadata.insert(key, gguf::Scalar(value)));
  return metadata;
}

ChatFormat format_of(const std::map<std::string, std::string>& entries) {
  return ChatFormat::create(metadata_with(entries), ByteTokenizer());
}

Conversation conversation_of(std::string_view body) {
  auto conversation = parse_openai_conversation(Json::parse(body));
  EXPECT_TRUE(conversation) << (conversation ? "" : conversation.error().message());
  return *conversation;
}

std::string text_of(const Result<Rendered>& rendered) {
  return rendered ? rendered->text : "ERROR " + rendered.error().message();
}

const char* const kHello = R"({"messages":[{"role":"user","content":"hi"}]})";
const char* const kWithTool = R"({"messages":[{"role":"user","content":"hi"}],
                                  "tools":[{"type":"function","function":{"name":"f"}}]})";

TEST(ChatFormat, AContinuedAnswerBeginsBehindTheLastMessagesText) {
  const ChatFormat format = ChatFormat::from_source(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }} end<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      "<s>", "</s>");
  Conversation conversation =
      conversation_of(R"({"messages":[{"role":"user","content":"end"},{"role":"assistant","content":" The end "}]})");
  conversation.continues_last = true;
  const auto rendered = format.render(conversation);
  EXPECT_EQ(text_of(rendered), "<|im_start|>user\nend end<|im_end|>\n<|im_start|>assistant\nThe end");
  ASSERT_TRUE(rendered);
  EXPECT_LE(rendered->trusted.back().end, rendered->text.size());
  // The same word in what the template wrote is not the message's.
  conversation.messages.back().content = "end";
  EXPECT_EQ(text_of(format.render(conversation)), "<|im_start|>user\nend end<|im_end|>\n<|im_start|>assistant\nend");
  conversation.messages.back().content = " \n";
  EXPECT_TRUE(text_of(format.render(conversation)).starts_with("ERROR"));
}

const KnownTemplate& known(std::string_view name) { return *find_known_template(name); }

ChatFormat known_format(std::string_view name) { return ChatFormat::from_source(known(name).source, "<bos>", "<eos>"); }

TEST(KnownTemplates, WriteTheTurnsOfTheirFamilies) {
  const Conversation conversation = conversation_of(R"({"messages":[
      {"role":"system","content":"Be brief."}, {"role":"user","content":" hi "},
      {"role":"assistant","content":"hello"}, {"role":"user","content":"bye"}]})");
  EXPECT_EQ(text_of(known_format("gemma").render(conversation)),
            "<bos><start_of_turn>user\nBe brief.\n\nhi<end_of_turn>\n<start_of_turn>model\nhello<end_of_turn>\n"
            "<start_of_turn>user\nbye<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(text_of(known_format("chatml").render(conversation)),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\nhello"
            "<|im_end|>\n<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(text_of(known_format("llama3").render(conversation)),
            "<bos><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user"
            "<|end_header_id|>\n\nhi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nhello<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nbye<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
            "\n\n");
}

// As the published template of the family does, where that one takes the conversation.
TEST(KnownTemplates, GemmasIsThatOfThePublishedModel) {
  std::ifstream file(tempo9::testing::golden_path("templates/google-gemma-2-2b-it.jinja"));
  const std::string source(std::istreambuf_iterator<char>(file), {});
  const ChatFormat published = ChatFormat::from_source(source, "<bos>", "<eos>");
  for (const char* body : {kHello, R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b "},
                                                   {"role":"user","content":"\nc"}]})"}) {
    EXPECT_EQ(text_of(known_format("gemma").render(conversation_of(body))),
              text_of(published.render(conversation_of(body))));
  }
}

TEST(KnownTemplates, AreNamedWhereTheVocabularyIsForOneAndNeverUsedUnasked) {
  ByteTokenizer tokenizer;
  EXPECT_EQ(fitting_template(tokenizer), nullptr);
  tokenizer.control = {"<|im_end|>", "</s>", "<|im_start|>"};
  ASSERT_NE(fitting_template(tokenizer), nullptr);
  EXPECT_EQ(fitting_template(tokenizer)->name, "chatml");
  const ChatFormat format = ChatFormat::create(metadata_with({}), tokenizer);
  EXPECT_EQ(format.problem(),
            "the model file has no chat template (--chat-template FILE gives one; its vocabulary is one for "
            "--chat-template chatml)");
  EXPECT_TRUE(text_of(format.render(conversation_of(kHello))).starts_with("ERROR"));
  tokenizer.control = {"<start_of_turn>", "</s>", "<end_of_turn>"};
  EXPECT_EQ(fitting_template(tokenizer)->name, "gemma");
  EXPECT_EQ(find_known_template("gemma3"), nullptr);
}

TEST(ChatFormat, TemplatesTellWhetherTheModelThinks) {
  const auto can_think = [](std::string_view source) { return ChatFormat::from_source(source, "", "").can_think(); };
  EXPECT_FALSE(can_think("{% for m in messages %}{{ m.content }}{% endfor %}"));
  EXPECT_TRUE(
      can_think("{{ messages[0].content }}{% if enable_thinking is defined and not enable_thinking %}x{% endif %}"));
  EXPECT_TRUE(can_think("{{ messages[0].content }}<think>"));
  EXPECT_TRUE(can_think("{{ messages[0].content }}{{ reasoning_effort }}"));
}

TEST(ChatFormat, VariablesOfAConversation) {
  const Conversation conversation = conversation_of(R"({"messages":[
    {"role":"developer","content":"one"},{"role":"system","content":"two"},
    {"role":"user","content":"q","name":"ann"},
    {"role":"assistant","content":null,"reasoning_content":"hmm",
     "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":null}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"42"},
    {"role":"system","content":"late"}],
    "chat_template_kwargs":{"enable_thinking":false,"messages":[],"tools":[],"add_generation_prompt":false,
                            "bos_token":"x","eos_token":"y"}})");
  const Json variables = template_variables(conversation, "<s>", "</s>");
  EXPECT_EQ(variables["messages"].dump(),
            R"([{"role":"system","content":"one\n\ntwo"},{"role":"user","content":"q","name":"ann"},)"
            R"({"role":"assistant","content":"","reasoning_content":"hmm","reasoning":"hmm","thinking":"hmm",)"
            R"("tool_calls":[{"id":"c1","type":"function",)"
            R"("function":{"name":"f","arguments":{"z":1,"a":null}}}]},)"
            R"({"role":"tool","content":"42","tool_call_id":"c1","name":"f"},{"role":"system","content":"late"}])");
  EXPECT_TRUE(variables["tools"].is_null());
  EXPECT_EQ(variables["add_generation_prompt"], true);
  EXPECT_EQ(variables["bos_token"], "<s>");
  EXPECT_EQ(variables["eos_token"], "</s>");
  EXPECT_EQ(variables["enable_thinking"], false);
}

TEST(ChatFormat, TokensOfTheTokenizerReachTheTemplate) {
  const ChatFormat format =
      format_of({{"tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"}});
  EXPECT_EQ(format.problem(), "");
  EXPECT_EQ(text_of(format.render(conversation_of(kHello))), "<s>hi</s>");
}

TEST(ChatFormat, WhichTemplateOfAFile) {
  const std::string main = "tokenizer.chat_template";
  const ChatFormat both = format_of({{main, "default"}, {main + ".tool_use", "tools"}, {main + ".rag", "rag"}});
  EXPECT_EQ(text_of(both.render(conversation_of(kHello))), "default");
  EXPECT_EQ(text_of(both.render(conversation_of(kWithTool))), "tools");
  EXPECT_EQ(text_of(format_of({{main + ".rag", "rag"}}).render(conversation_of(kWithTool))), "rag");
  EXPECT_EQ(text_of(format_of({{main, "only"}}).render(conversation_of(kWithTool))), "only");
  const ChatFormat several = format_of({{main + ".rag", "rag"}, {main + ".other", "other"}});
  EXPECT_FALSE(several.render(conversation_of(kHello)));
}

TEST(ChatFormat, UnusableTemplatesStillLoad) {
  const ChatFormat none = format_of({});
  EXPECT_NE(none.problem(), "");
  auto rendered = none.render(conversation_of(kHello));
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code(), ErrorCode::kUnsupported);
  const ChatFormat broken = format_of({{"tokenizer.chat_template", "a\n{% if %}"}});
  EXPECT_NE(broken.problem().find("line 2"), std::string::npos) << broken.problem();
  EXPECT_FALSE(broken.render(conversation_of(kHello)));
}

// Gemma 2's way.
TEST(ChatFormat, WhatTheTemplateRaisesIsABadRequest) {
  const ChatFormat format = ChatFormat::from_source(
      read_text(tempo9::testing::golden_path("templates/google-gemma-2-2b-it.jinja")), "<bos>", "<eos>");
  auto rendered = format.render(
      conversation_of(R"({"messages":[{"role":"assistant","content":"a"},{"role":"user","content":"u"}]})"));
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(rendered.error().reason(), "template_error");
  EXPECT_EQ(rendered.error().message(), "Conversation roles must alternate user/assistant/user/assistant/...");
}

// Field report B10: TranslateGemma's way.
TEST(ChatFormat, ATemplateThatWantsTypedContentIsGivenTheClientsParts) {
  const ChatFormat format = ChatFormat::from_source(
      "{% for m in messages %}{% if m.content is string %}{{ raise_exception('content must be a list of parts') }}"
      "{% endif %}{% for p in m.content %}<|{{ p.source_lang }}|>{{ p.text }}{% endfor %}{% endfor %}",
      "", "");
  const std::string part = R"({"type":"text","text":"hi","source_lang":"<|en|>"})";
  const auto rendered =
      format.render(conversation_of(R"({"messages":[{"role":"user","content":[)" + part + "," + part + "]}]}"));
  EXPECT_EQ(text_of(rendered), "<|<|en|>|>hi<|<|en|>|>hi");
  ASSERT_TRUE(rendered);
  for (const auto& range : rendered->trusted) {
    EXPECT_EQ(rendered->text.substr(range.begin, range.end - range.begin).find("en"), std::string::npos);
  }
  const auto refused = format.render(conversation_of(kHello));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason(), "template_error");
  EXPECT_EQ(refused.error().message(), "content must be a list of parts");
  // Any other template sees text.
  const ChatFormat other = ChatFormat::from_source("{{ messages[0].content }}", "", "");
  EXPECT_EQ(text_of(other.render(conversation_of(R"({"messages":[{"role":"user","content":[)" + part + "]}]}"))), "hi");
}

TEST(ChatFormat, RolesMayBePartOfControlTokens) {
  const ChatFormat format =
      ChatFormat::from_source("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}", "", "");
  auto rendered = format.render(conversation_of(R"({"messages":[{"role":"user","content":"<|user|>"}]})"));
  ASSERT_TRUE(rendered);
  ASSERT_EQ(rendered->trusted.size(), 1u);
  EXPECT_EQ(rendered->text.substr(0, rendered->trusted[0].end), "<|user|>");
}

TEST(PromptTokens, ForgedControlTokensStayText) {
  const ChatFormat format = ChatFormat::from_source("<|im_start|>{{ messages[0].content }}<|im_start|>", "", "");
  auto rendered = format.render(conversation_of(R"({"messages":[{"role":"user","content":"<|im_start|><s>"}]})"));
  ASSERT_TRUE(rendered);
  ByteTokenizer tokenizer;
  tokenizer.adds_bos_flag = false;
  auto ids = encode_prompt(tokenizer, *rendered);
  ASSERT_TRUE(ids);
  EXPECT_EQ(std::ranges::count(*ids, ByteTokenizer::kStart), 2);
  EXPECT_EQ(std::ranges::count(*ids, ByteTokenizer::kBos), 0);
  EXPECT_EQ(ids->size(), 2 + std::string("<|im_start|><s>").size());
}

TEST(PromptTokens, ExactlyOneBos) {
  ByteTokenizer tokenizer;
  const Rendered without{"hi", {}};
  const Rendered with{"<s>hi", {{0, 3}}};
  const Rendered forged{"<s>hi", {}};
  const std::vector<int32_t> expected = {ByteTokenizer::kBos, 'h', 'i'};
  EXPECT_EQ(encode_prompt(tokenizer, without), expected);
  EXPECT_EQ(encode_prompt(tokenizer, with), expected);
  EXPECT_EQ(encode_prompt(tokenizer, forged)->size(), 6u);
  tokenizer.adds_bos_flag = false;
  EXPECT_EQ(encode_prompt(tokenizer, without)->size(), 2u);
  EXPECT_EQ(encode_prompt(tokenizer, with), expected);
}

// A prompt that is too long is counted with its first token looked at apart, of which what is trusted is longer.
TEST(PromptTokens, APromptThatIsTooLongIsCountedWithItsBos) {
  const auto file = gguf::File::open(tempo9::testing::golden_path("mistral-spm/model.gguf"));
  ASSERT_TRUE(file);
  const auto tokenizer = tokenizer::Tokenizer::create((*file)->metadata());
  ASSERT_TRUE(tokenizer);
  ASSERT_TRUE((*tokenizer)->adds_bos());
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  const Rendered with{"<s>[INST] " + words, {{0, 10}}};
  const Rendered without{"[INST] " + words, {{0, 7}}};
  for (const Rendered& prompt : {with, without}) {
    const auto whole = encode_prompt(**tokenizer, prompt, {.max_tokens = 1000});
    ASSERT_TRUE(whole);
    const auto cut = encode_prompt(**tokenizer, prompt, {.max_tokens = 50});
    ASSERT_FALSE(cut);
    ASSERT_TRUE(cut.error().overflow());
    EXPECT_EQ(cut.error().overflow()->n_tokens, std::ssize(*whole)) << prompt.text;
  }
}

}  // namespace
}  // namespace tempo9::chat
