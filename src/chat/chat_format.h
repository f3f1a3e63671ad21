// A model's way of writing conversations: its template, with the special-token texts it is rendered with.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/message.h"
#include "chat/template/template.h"
#include "chat/template_traits.h"
#include "chat/tools/dialect.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

// Immutable; any thread may render.
class ChatFormat {
 public:
  // Reads tokenizer.chat_template (and its named forms; `tool_use` serves conversations with tools). A model without a
  // template, or with one that does not parse, still loads: `render` then gives the error, which says so.
  static ChatFormat create(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer);
  // From a template's text alone, for `tempo9 render --template`.
  static ChatFormat from_source(std::string_view source, std::string bos_token, std::string eos_token);

  // The prompt of the conversation, adapted to what the template can take (history.h). Text may begin with the BOS
  // token; encode_prompt (prompt_tokens.h) sees to it that there is one BOS.
  // Errors: kUnsupported when there is no usable template; else as Template::render.
  Result<Rendered> render(const Conversation& conversation,
                          std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;
  // The template's variables given as they are (`render --raw-context`).
  Result<Rendered> render_raw(const Json& variables, std::chrono::system_clock::time_point now) const;

  // How the model writes tool calls and reasoning, as its template tells.
  const tools::Dialect& dialect() const { return *dialect_; }
  // Whether the model may write reasoning: its template or its vocabulary has the marker for it.
  bool has_reasoning() const { return has_reasoning_; }
  // What the template can take as it is; of the one for conversations with tools if there are two.
  const TemplateTraits& traits() const { return traits_; }
  // Whether the template has a way to switch thinking on and off, or has a place for it in the assistant's messages.
  bool can_think() const { return can_think_; }
  // Why there is no usable template; empty when there is one.
  const std::string& problem() const { return default_.problem; }

 private:
  // The levels of reasoning that a template knows.
  enum class Efforts : uint8_t {
    kNone,
    kToHigh,   // low, medium, high
    kToXhigh,  // low, medium, xhigh
  };

  struct Source {
    std::shared_ptr<const Template> parsed;
    std::string problem;
    Efforts efforts = Efforts::kNone;
    bool mentions_reasoning = false;
  };

  static Source parse(std::string_view source);
  static std::string_view effort_level(Efforts efforts, std::string_view effort);
  Result<Rendered> render_with(const Source& source, const Json& variables, const RenderOptions& options) const;

  Source default_;
  Source with_tools_;  // both empty: the default serves
  const Source& source_for(const Conversation& conversation) const;
  void probe();

  const tools::Dialect* dialect_ = nullptr;
  bool has_reasoning_ = false;
  TemplateTraits traits_;
  bool can_think_ = false;
  std::string bos_token_;
  std::string eos_token_;
};

// The variables that `conversation` becomes (spec tool-calling 10.1), in the shape of OpenAI's API; without tools, the
// variable `tools` is null. template_kwargs cannot replace the others. Content is text, even of a client's typed parts,
// unless the template does not take that.
Json template_variables(const Conversation& conversation, std::string_view bos_token, std::string_view eos_token,
                        bool takes_plain_text = true);

}  // namespace tempo9::chat
