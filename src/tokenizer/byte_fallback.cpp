#include "tokenizer/byte_fallback.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tempo9::tokenizer {

Result<void> push_as_bytes(const Vocabulary& vocabulary, std::string_view character, TokenSink& sink) {
  const auto token_of = [&](char c) { return vocabulary.byte_token(static_cast<uint8_t>(c)); };
  if (std::ranges::all_of(character, [&](char c) { return token_of(c).has_value(); })) {
    for (const char c : character) sink.push(*token_of(c));
    return {};
  }
  if (!vocabulary.unknown()) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("the vocabulary has no token for '{}', no byte tokens and no unknown token", character));
  }
  sink.push(*vocabulary.unknown());
  return {};
}

}  // namespace tempo9::tokenizer
