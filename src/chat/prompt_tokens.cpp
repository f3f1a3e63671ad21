#include "chat/prompt_tokens.h"

#include <algorithm>
#include <string_view>

namespace tempo9::chat {

namespace {

bool begins_with(const tokenizer::Tokenizer& tokenizer, const Rendered& prompt, int32_t token,
                 tokenizer::EncodeOptions options) {
  const std::string_view text = std::string_view(prompt.text).substr(0, tokenizer.token_text(token).size());
  std::vector<tokenizer::ByteRange> trusted;  // in what is left of the prompt
  for (const tokenizer::ByteRange& range : prompt.trusted) {
    if (range.begin < text.size()) trusted.push_back({range.begin, std::min(range.end, text.size())});
  }
  options.max_tokens = 0;
  options.special_allowed = trusted;
  const auto ids = tokenizer.encode(text, options);
  return ids && !ids->empty() && ids->front() == token;
}

}  // namespace

Result<std::vector<int32_t>> encode_prompt(const tokenizer::Tokenizer& tokenizer, const Rendered& prompt,
                                           tokenizer::EncodeOptions options) {
  options.parse_special = true;
  options.special_allowed = prompt.trusted;
  auto ids = tokenizer.encode(prompt.text, options);
  if (!tokenizer.adds_bos() || !tokenizer.bos()) return ids;
  const int32_t bos = *tokenizer.bos();
  if (ids) {
    if (ids->empty() || ids->front() != bos) ids->insert(ids->begin(), bos);
    return ids;
  }
  const auto overflow = ids.error().overflow();
  if (overflow && !begins_with(tokenizer, prompt, bos, options)) {
    return fail(std::move(ids).error().with_overflow(overflow->n_tokens + 1, overflow->limit));
  }
  return ids;
}

}  // namespace tempo9::chat
