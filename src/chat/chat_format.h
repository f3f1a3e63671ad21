// A model's way of writing conversations: its template, with the special-token texts it is rendered with.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "chat/message.h"
#include "chat/template/template.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

// Immutable; any thread may render.
class ChatFormat {
 public:
  // Reads tokenizer.chat_template (and its named forms). A model without a template, or with one that does not parse,
  // still loads: `render` then gives the error, which says so.
  static ChatFormat create(const gguf::Metadata& metadata, const tokenizer::Tokenizer& tokenizer);
  // From a template's text alone, for `tempo9 render --template`.
  static ChatFormat from_source(std::string_view source, std::string bos_token, std::string eos_token);

  Result<Rendered> render(const Conversation& conversation,
                          std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;
  // The template's variables given as they are (`render --raw-context`).
  Result<Rendered> render_raw(const Json& variables, std::chrono::system_clock::time_point now) const;

  // Why there is no usable template; empty when there is one.
  const std::string& problem() const { return problem_; }

 private:
  std::shared_ptr<const Template> template_;
  std::string problem_;
  std::string bos_token_;
  std::string eos_token_;
};

}  // namespace tempo9::chat
