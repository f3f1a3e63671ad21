// AnswerParser: runs a dialect's coroutine over the text as it arrives.
#include <utility>

#include "chat/tools/dialect.h"
#include "chat/tools/parse_context.h"

namespace tempo9::chat::tools {

struct AnswerParser::State {
  State(const Dialect& dialect, ParserOptions given)
      : options(std::move(given)),
        context{.in = {},
                .out = AnswerSink(options.continues_content),
                .tools = options.tools ? *options.tools : kNoTools,
                .options = options},
        reader(dialect.read_answer(context)) {
    reader.start();
  }

  static const ToolSet kNoTools;
  const ParserOptions options;
  ParseContext context;
  Task<> reader;
};

const ToolSet AnswerParser::State::kNoTools;

AnswerParser::AnswerParser(const Dialect& dialect, ParserOptions options)
    : state_(std::make_unique<State>(dialect, std::move(options))) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

std::vector<AnswerEvent> AnswerParser::feed(std::string_view text) {
  if (!state_->context.is_over) state_->context.in.append(text);
  return state_->context.out.take_events();
}

std::vector<AnswerEvent> AnswerParser::finish(EndReason reason) {
  if (!state_->context.is_over) state_->context.in.end(reason);
  state_->context.out.finish();
  return state_->context.out.take_events();
}

bool AnswerParser::is_over() const { return state_->context.is_over; }
bool AnswerParser::is_in_reasoning() const { return state_->context.in_reasoning; }

}  // namespace tempo9::chat::tools
