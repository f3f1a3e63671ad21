// Parsing whole texts for tests, cut as they like.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/tools/dialect.h"

namespace tempo9::chat::tools::testing {

struct Call {
  std::string name;
  std::string arguments;
  bool operator==(const Call&) const = default;
};

// The joined events.
struct Answer {
  std::string reasoning;
  std::string content;
  std::vector<Call> calls;
  bool is_incomplete = false;
  bool is_over = false;
  bool operator==(const Answer&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  out << "reasoning <" << answer.reasoning << "> content <" << answer.content << ">";
  for (const Call& call : answer.calls) out << " call " << call.name << " " << call.arguments;
  return out << (answer.is_incomplete ? " incomplete" : "") << (answer.is_over ? " over" : "");
}

struct ParseCase {
  const Dialect* dialect;
  std::string text;
  std::shared_ptr<const ToolSet> tools;
  Start start = Start::kMaybeReasoning;
  EndReason end = EndReason::kStop;
  bool parallel_calls = true;
};

inline void join(Answer& answer, const std::vector<AnswerEvent>& events) {
  using Kind = AnswerEvent::Kind;
  for (const AnswerEvent& event : events) {
    if (event.kind == Kind::kReasoning) answer.reasoning += event.text;
    if (event.kind == Kind::kContent) answer.content += event.text;
    if (event.kind == Kind::kCallBegin) answer.calls.push_back({event.text, ""});
    if (event.kind == Kind::kCallArguments) answer.calls.back().arguments += event.text;
    if (event.kind == Kind::kCallEnd) answer.is_incomplete = !event.is_complete;
  }
}

// `cuts` are the ends of all pieces but the last.
inline Answer parse_cut(const ParseCase& c, const std::vector<size_t>& cuts) {
  AnswerParser parser(*c.dialect, {.tools = c.tools, .start = c.start, .parallel_calls = c.parallel_calls});
  Answer answer;
  const std::string_view text = c.text;
  size_t begin = 0;
  for (const size_t end : cuts) {
    join(answer, parser.feed(text.substr(begin, end - begin)));
    begin = end;
  }
  join(answer, parser.feed(text.substr(begin)));
  join(answer, parser.finish(c.end));
  answer.is_over = parser.is_over();
  return answer;
}

inline Answer parse_chunked(const ParseCase& c, size_t chunk) {
  std::vector<size_t> cuts;
  for (size_t at = chunk; at < c.text.size(); at += chunk) cuts.push_back(at);
  return parse_cut(c, cuts);
}

}  // namespace tempo9::chat::tools::testing
