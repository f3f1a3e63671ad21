#include "chat/prompt_tokens.h"

namespace tempo9::chat {

Result<std::vector<int32_t>> encode_prompt(const tokenizer::Tokenizer& tokenizer, const Rendered& prompt,
                                           tokenizer::EncodeOptions options) {
  options.parse_special = true;
  options.special_allowed = prompt.trusted;
  T9_TRY(ids, tokenizer.encode(prompt.text, options));
  const auto bos = tokenizer.bos();
  if (tokenizer.adds_bos() && bos && (ids.empty() || ids.front() != *bos)) ids.insert(ids.begin(), *bos);
  return ids;
}

}  // namespace tempo9::chat
