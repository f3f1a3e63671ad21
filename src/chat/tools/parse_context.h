// What the dialects' parsers share: the text being read, where events go, and the request's tools.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "chat/tools/answer_sink.h"
#include "chat/tools/dialect.h"
#include "chat/tools/task.h"
#include "chat/tools/text_source.h"
#include "chat/tools/tool_set.h"

namespace tempo9::chat::tools {

struct ParseContext {
  TextSource in;
  AnswerSink out;
  const ToolSet& tools;
  const ParserOptions& options;

  bool in_reasoning = false;
  bool is_over = false;
  // Nothing but blanks stands on the current line of the content.
  bool is_line_start = true;

  bool has_tools() const { return !tools.is_empty(); }
  // After a call: the request wants no more of them.
  bool has_enough_calls() const { return !options.parallel_calls && out.has_complete_call(); }

  void pass_content(std::string_view text, size_t source_begin);
  // Passes the next `n_bytes` on as content.
  void pass_content(size_t n_bytes);
  // Passes everything up to the cursor on, from `begin`: what looked like a call and was none.
  void pass_content_from(const TextSource::Checkpoint& begin);
};

struct Marker {
  std::string_view text;
  bool at_line_start = false;  // counts only with nothing but blanks before it on its line
};
inline constexpr size_t kNoMarker = SIZE_MAX;

// Passes text on as content until one of `markers` comes next: its index, the cursor before it. kNoMarker at the end.
Task<size_t> pass_content_until(ParseContext& context, std::span<const Marker> markers);
// The same as reasoning.
Task<size_t> pass_reasoning_until(ParseContext& context, std::span<const Marker> markers);

// The tags of a reasoning block.
struct ReasoningTags {
  std::string_view open;
  std::string_view close;
  // A call may begin inside reasoning and then ends it.
  std::string_view call_open;
  // Whether a call does stand at `call_open`, the cursor before it; null: always. Prose about the format has the tag
  // as well.
  Task<bool> (*is_call)(ParseContext& context) = nullptr;
};

// Reads the reasoning that an answer may begin with, and drops a closing tag that stands alone at its beginning. The
// cursor is then before the content, or before a call that ended the reasoning (true).
Task<bool> read_reasoning(ParseContext& context, const ReasoningTags& tags);

// Behind the reasoning: the content is the request's JSON, as no call begins here.
Task<bool> is_json_content(ParseContext& context, std::string_view call_open);

// Skips white space and `tag`, or what there is of it when the text ends inside. The cursor stays when neither comes.
Task<bool> skip_tag(TextSource& in, std::string_view tag);

}  // namespace tempo9::chat::tools
