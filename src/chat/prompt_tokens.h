// A rendered prompt as token ids.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "chat/template/template.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::chat {

// Control tokens come from template text only. If the tokenizer adds a BOS, there is exactly one at the front, whether
// or not the template wrote it. `options` supplies limits and cancellation; its special-token fields are set here. An
// overflow's count is that of the whole prompt, BOS included.
Result<std::vector<int32_t>> encode_prompt(const tokenizer::Tokenizer& tokenizer, const Rendered& prompt,
                                           tokenizer::EncodeOptions options = {});

}  // namespace tempo9::chat
