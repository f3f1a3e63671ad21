// A token's log-probabilities as OpenAI's chat and Ollama's API write them. Spec api 3.5.
#pragma once

#include "engine/request.h"
#include "server/json.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::server {

// {"token","logprob","bytes","top_logprobs":[…]}. The chosen token stands with its part of the answer, so that the
// entries' bytes join to the text; the others with what they would have written.
Json token_logprob_json(const engine::TokenInfo& info, const tokenizer::Tokenizer& tokenizer);

// What JSON has a way to write: minus infinity becomes a very low number.
float finite_logprob(float logprob);

}  // namespace tempo9::server
