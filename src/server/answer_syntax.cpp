#include "server/answer_syntax.h"

#include <array>
#include <string>

#include "base/check.h"

namespace tempo9::server {
namespace {

using grammar::AnswerSyntax;
using grammar::Written;

AnswerSyntax hermes_json() {
  return {.reasoning = {.open = "<think>", .close = "</think>"},
          .calls = {.heads = {{"<tool_call>\n{\"name\": \"", "\", \"arguments\": "}},
                    .end = "}\n</tool_call>",
                    .between = "\n",
                    .marker = "<tool_call>",
                    .marker_in_reasoning = "<tool_call>\n{"}};
}

AnswerSyntax qwen_xml() {
  return {.reasoning = {.open = "<think>", .close = "</think>"},
          .calls = {.heads = {{"<tool_call>\n<function=", ">\n"}},
                    .arguments = Written::kXmlParameters,
                    .end = "</function>\n</tool_call>",
                    .between = "\n",
                    .marker = "<tool_call>",
                    .bare_marker = "<function=",
                    .marker_in_reasoning = "<tool_call>\n<function="}};
}

AnswerSyntax llama3() {
  return {.reasoning = {.open = "<think>", .close = "</think>"},
          .calls = {.heads = {{"{\"name\": \"", "\", \"parameters\": "}},
                    .end = "}",
                    .allows_several = false,
                    .marker = "<|python_tag|>"}};
}

AnswerSyntax mistral_json() {
  return {.reasoning = {.open = "[THINK]", .close = "[/THINK]"},
          .calls = {.first = "[TOOL_CALLS][",
                    .heads = {{"{\"name\": \"", "\", \"arguments\": "}},
                    .end = "}",
                    .between = ", ",
                    .last = "]",
                    .marker = "[TOOL_CALLS]",
                    .marker_in_reasoning = "[TOOL_CALLS]"}};
}

AnswerSyntax mistral_v13() {
  return {.reasoning = {.open = "[THINK]", .close = "[/THINK]"},
          .calls = {
              .heads = {{"[TOOL_CALLS]", "[ARGS]"}}, .marker = "[TOOL_CALLS]", .marker_in_reasoning = "[TOOL_CALLS]"}};
}

// One call ends a turn. The recipient may stand on either side of the channel.
AnswerSyntax harmony() {
  const std::string before = "<|channel|>commentary to=functions.";
  const std::string alone = " to=functions.";
  return {.reasoning = {.open = "<|channel|>analysis<|message|>",
                        .close = "<|end|>",
                        .behind = "<|start|>assistant",
                        .may_repeat = true,
                        .excluded = {"<|start|>", "<|channel|>", "<|message|>", "<|call|>", "<|return|>"}},
          .calls = {.heads = {{before, " <|constrain|>json<|message|>"},
                              {before, "<|message|>"},
                              {alone, "<|channel|>commentary <|constrain|>json<|message|>"},
                              {alone, "<|channel|>commentary json<|message|>"}},
                    .allows_several = false},
          .content_heads = {"<|channel|>final<|message|>", "<|channel|>final <|constrain|>json<|message|>"},
          .excluded_in_content = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"},
          .header_end = "<|message|>",
          .address = "to=functions.",
          .body_ends = {"<|end|>", "<|start|>", "<|channel|>"}};
}

AnswerSyntax gemma4() {
  return {.reasoning = {.open = "<|channel>thought\n", .close = "<channel|>", .excluded = {"<turn|>"}},
          .calls = {.heads = {{"<|tool_call>call:", ""}},
                    .arguments = Written::kGemma,
                    .end = "<tool_call|>",
                    .closing = "<|tool_response>",
                    .marker = "<|tool_call>",
                    .excluded = {"<|tool_call|>"},
                    .marker_in_reasoning = "<|tool_call>"},
          .excluded_in_content = {"<|tool_call>", "<|tool_call|>", "<|channel>", "<channel|>", "<|tool_response>",
                                  "<turn|>"}};
}

struct Family {
  std::string_view dialect;
  AnswerSyntax (*syntax)();
};

constexpr std::array kFamilies = {
    Family{"hermes-json", hermes_json},   Family{"generic", hermes_json},
    Family{"qwen-xml", qwen_xml},         Family{"llama3", llama3},
    Family{"mistral-json", mistral_json}, Family{"mistral-v13", mistral_v13},
    Family{"harmony", harmony},           Family{"gemma4", gemma4},
};

}  // namespace

AnswerSyntax answer_syntax(std::string_view dialect) {
  for (const Family& family : kFamilies) {
    if (family.dialect == dialect) return family.syntax();
  }
  T9_CHECK(false);
  return {};
}

}  // namespace tempo9::server
