// Chat templates for files that have none. They are used when asked for by name: a file's vocabulary tells which one
// may fit, not that the model was trained with it (spec gguf 2.3: refuse rather than guess).
#pragma once

#include <span>
#include <string_view>

#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

struct KnownTemplate {
  std::string_view name;    // as in --chat-template NAME
  std::string_view source;  // Jinja
  // Control tokens that a vocabulary made for it has.
  std::span<const std::string_view> tokens;
};

std::span<const KnownTemplate> known_templates();
// Null when there is none of this name.
const KnownTemplate* find_known_template(std::string_view name);
// The one whose tokens the vocabulary has; null when none fits. Walks the vocabulary.
const KnownTemplate* fitting_template(const tokenizer::Tokenizer& tokenizer);

}  // namespace tempo9::chat
