// A tool dialect: how the models of a family write reasoning and tool calls into their text. list.cpp has all of them.
// Spec tool-calling sections 1 to 5.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tools/answer_event.h"
#include "chat/tools/task.h"
#include "chat/tools/text_source.h"
#include "chat/tools/tool_set.h"

namespace tempo9::chat::tools {

struct ParseContext;  // parse_context.h

struct Dialect {
  std::string_view name;
  // Whether a model with this chat template speaks the dialect.
  bool (*fits)(std::string_view template_text);
  // Tokens that the parser reads, should they be control tokens in a vocabulary: they must reach it as text.
  std::span<const std::string_view> markers;
  // Text at the end of a prompt that has opened the reasoning: the answer begins inside it. May be empty.
  std::string_view reasoning_opener;
  // What a model writes around its reasoning.
  std::string_view reasoning_open;
  std::string_view reasoning_close;
  // Written in the model's place where its reasoning is cut off: the answer follows.
  std::string_view reasoning_cut;
  // Reads one answer from its source to its end, or until it says that the answer is over.
  Task<> (*read_answer)(ParseContext& context);
};

// In the order in which they are asked whether they fit; the last one fits every template.
std::span<const Dialect* const> all_dialects();
// Null when there is none of this name.
const Dialect* find_dialect(std::string_view name);
const Dialect& choose_dialect(std::string_view template_text);

// How an answer begins.
enum class Start : unsigned char {
  kMaybeReasoning,  // with reasoning if its marker comes first
  kInReasoning,     // the prompt has opened the reasoning
};

struct ParserOptions {
  // Null or empty: the request has no tools, and call markup is ordinary text.
  std::shared_ptr<const ToolSet> tools;
  Start start = Start::kMaybeReasoning;
  bool parallel_calls = true;  // false: the answer is over after its first call
  // The answer is calls in the dialect's own form or JSON that a schema holds: markup in that is text, and JSON that
  // looks like a call is none.
  bool content_is_json = false;
  bool continues_content = false;  // the prompt ends inside the content: white space at the beginning belongs to it
};

// Turns the text of one answer into events while it arrives. The text is what the model generated after the prompt,
// with the dialect's markers in it as text and without end-of-generation tokens (those written out are understood); it
// may be cut anywhere, inside characters too. Whatever the cuts, the joined events are the same. No text is lost: what
// looked like a call and is none is content, as written. Nothing is invented: a call that breaks off stays broken.
// One per answer; not thread-safe.
class AnswerParser {
 public:
  AnswerParser(const Dialect& dialect, ParserOptions options);
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  // The events that are certain with this text. Ignored once is_over(). REQUIRES: not finished.
  std::vector<AnswerEvent> feed(std::string_view text);
  // No text follows; `reason` says whether the model ended it or a limit did.
  std::vector<AnswerEvent> finish(EndReason reason);

  // What the model writes from here on is not part of its answer, e.g. a tool result that it makes up itself. The
  // answer counts as ended by the model; generation may stop.
  bool is_over() const;
  // The text read so far ends inside reasoning.
  bool is_in_reasoning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tempo9::chat::tools
