#include "chat/tools/python_call.h"

#include "chat/tools/json_strings.h"
#include "chat/tools/typing.h"

namespace tempo9::chat::tools {

void write_python_call(AnswerSink& out, const PythonCall& call, const Tool* tool) {
  out.begin_call(tool ? tool->name() : call.name);
  std::string json = "{";
  for (const auto& [name, value] : call.arguments) {
    const auto allowed = find_parameter(tool, name);
    if (json.size() > 1) json += ',';
    json += quote_json(name) + ":" + type_json_value(value, allowed ? &*allowed : nullptr);
  }
  out.arguments(json + "}");
  out.end_call(true);
}

Task<bool> skip_python_brackets(TextSource& in) {
  int depth = 0;
  int quote = 0;
  for (;;) {
    const int c = co_await in.peek();
    if (c < 0) co_return false;
    in.advance(1);
    if (quote != 0) {
      if (c == '\\' && co_await in.need(1)) in.advance(1);
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (--depth <= 0) co_return true;
    }
  }
}

}  // namespace tempo9::chat::tools
