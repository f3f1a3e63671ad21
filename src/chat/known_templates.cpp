#include "chat/known_templates.h"

#include <algorithm>
#include <array>

namespace tempo9::chat {
namespace {

// Gemma 1 to 3: no turn for a system message, which stands before the first user's text.
constexpr std::string_view kGemma =
    R"({{ bos_token }}{% set turns = messages %}{% set before = '' %})"
    R"({% if messages and messages[0].role == 'system' %})"
    R"({% set before = messages[0].content | trim + '\n\n' %}{% set turns = messages[1:] %}{% endif %})"
    R"({% for m in turns %}<start_of_turn>{{ 'model' if m.role == 'assistant' else 'user' }}
{% if loop.first %}{{ before }}{% endif %}{{ m.content | trim }}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %})";

constexpr std::string_view kChatMl =
    R"({% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %})";

constexpr std::string_view kLlama3 =
    R"({{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %})";

constexpr std::array<std::string_view, 2> kGemmaTokens = {"<start_of_turn>", "<end_of_turn>"};
constexpr std::array<std::string_view, 2> kChatMlTokens = {"<|im_start|>", "<|im_end|>"};
constexpr std::array<std::string_view, 3> kLlama3Tokens = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};

constexpr std::array<KnownTemplate, 3> kTemplates = {{{.name = "chatml", .source = kChatMl, .tokens = kChatMlTokens},
                                                      {.name = "gemma", .source = kGemma, .tokens = kGemmaTokens},
                                                      {.name = "llama3", .source = kLlama3, .tokens = kLlama3Tokens}}};

}  // namespace

std::span<const KnownTemplate> known_templates() { return kTemplates; }

const KnownTemplate* find_known_template(std::string_view name) {
  const auto found = std::ranges::find(kTemplates, name, &KnownTemplate::name);
  return found == kTemplates.end() ? nullptr : &*found;
}

const KnownTemplate* fitting_template(const tokenizer::Tokenizer& tokenizer) {
  std::array<size_t, kTemplates.size()> n_found{};
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    const std::string_view text = tokenizer.token_text(id);
    if (!text.starts_with('<')) continue;
    for (size_t i = 0; i < kTemplates.size(); ++i) {
      n_found[i] += static_cast<size_t>(std::ranges::count(kTemplates[i].tokens, text));
    }
  }
  for (size_t i = 0; i < kTemplates.size(); ++i) {
    if (n_found[i] == kTemplates[i].tokens.size()) return &kTemplates[i];
  }
  return nullptr;
}

}  // namespace tempo9::chat
