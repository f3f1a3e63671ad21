// What stands for a character that is no token, in vocabularies with byte tokens.
#pragma once

#include <string_view>

#include "base/result.h"
#include "tokenizer/token_sink.h"
#include "tokenizer/vocabulary.h"

namespace tempo9::tokenizer {

// One <0xNN> token per byte; where one of those is missing, the unknown token for the whole.
// Errors: kInvalidInput when there is none of these.
Result<void> push_as_bytes(const Vocabulary& vocabulary, std::string_view character, TokenSink& sink);

}  // namespace tempo9::tokenizer
