// A whole answer of a model: reasoning, then calls of declared tools in the form of its family, or content.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/schema_compiler.h"

namespace tempo9::grammar {

struct ToolSignature {
  std::string name;
  nlohmann::ordered_json parameters;  // a schema; references are to places in it
  bool is_strict = false;             // its objects are closed where the schema does not say
  // Any arguments will do; so they do where the schema cannot be compiled and need not be held to.
  bool is_free = false;
};

// A call is begin + name + arguments_begin + arguments + end; calls are first, one or more with `between` between them,
// and last. All are exact text; Hermes, for example, has
//   begin `<tool_call>\n{"name": "`, arguments_begin `", "arguments": `, end `}\n</tool_call>` and between `\n`.
// REQUIRES: a call is at least one byte longer than its arguments.
struct CallSyntax {
  struct Head {
    std::string begin;
    std::string arguments_begin;
  };

  std::string first = {};
  std::vector<Head> heads = {};  // a call has one of these
  Written arguments = Written::kJson;
  std::string end = {};
  std::string between = {};
  std::string last = {};
  std::string closing = {};  // may follow all calls
  bool allows_several = true;
  // With this a call begins wherever it stands in content. It is where `first` + begin begins, or stands before that.
  // Empty: a call is the beginning of an answer.
  std::string marker = {};
  // The end of begin with which a call begins as well, at the beginning of a line of content. May be empty.
  std::string bare_marker = {};
  // What cannot stand in content, because a parser takes it for a call.
  std::vector<std::string> excluded = {};
  // How a call begins in reasoning: `marker` and what tells it from talk of the marker. Empty: none begins there.
  std::string marker_in_reasoning = {};
};

// Reasoning that comes before the rest of an answer.
struct ReasoningSyntax {
  std::string open = {};
  std::string close = {};
  std::string behind = {};  // follows the close
  bool may_repeat = false;  // another block may come
  // What cannot stand in it, because a parser would end it there.
  std::vector<std::string> excluded = {};
};

// How a family writes answers.
struct AnswerSyntax {
  ReasoningSyntax reasoning;
  CallSyntax calls;
  // What stands before content; one of these. Empty: white space.
  std::vector<std::string> content_heads = {};
  // What a parser would take for the end of content; each begins with '<'.
  std::vector<std::string> excluded_in_content = {};
  // Answers are messages: the tool's name stands in the header, `address` before it, and the body follows this.
  // Empty: answers are plain text.
  std::string header_end = {};
  std::string address = {};
  std::vector<std::string> body_ends = {};
};

// What an answer is held to.
struct AnswerRules {
  enum class Reasoning : uint8_t {
    kNone,
    kMaybe,  // an answer may begin with it
    kOpen,   // it begins inside
  };
  enum class Calls : uint8_t {
    kNone,
    kRequired,  // the answer is calls
    kMaybe,     // the answer is calls or content by the schema. REQUIRES: content_schema.
    kLazy,      // anything, but what begins as a call is one. REQUIRES: no content_schema.
  };

  Reasoning reasoning = Reasoning::kNone;
  Calls calls = Calls::kNone;
  std::vector<ToolSignature> tools = {};  // that can be called
  std::optional<nlohmann::ordered_json> content_schema = {};
  CompileOptions content_options = {};
};

// Errors: as of Grammar::compile, naming the tool where it is one's; kInvalidInput when there is no tool to call.
Result<std::shared_ptr<const Grammar>> compile_answer(const AnswerSyntax& syntax, const AnswerRules& rules);

}  // namespace tempo9::grammar
