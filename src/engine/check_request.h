// Whether a request can be served at all. The dialects check what clients send in their own words; this is the second
// line of defence, so nothing behind it needs to doubt a request.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/prompt_images.h"
#include "engine/request.h"

namespace tempo9::engine {

// Errors: kInvalidInput; with overflow() and reason "context_length_exceeded" when the prompt leaves no room for one
// token.
Result<void> check_request(const Request& request, int64_t context_length, int64_t n_vocab, const ImageLimits& images);

}  // namespace tempo9::engine
