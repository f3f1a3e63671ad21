#include "server/dialects/token_logprobs.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace tempo9::server {

namespace {

constexpr float kLowestLogprob = -9999.0f;  // stands for minus infinity

Json entry(float logprob, std::string_view bytes) {
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<uint8_t>(c));
  return {{"token", sanitize_utf8(bytes)}, {"logprob", finite_logprob(logprob)}, {"bytes", std::move(numbers)}};
}

}  // namespace

float finite_logprob(float logprob) { return std::isfinite(logprob) ? logprob : kLowestLogprob; }

Json token_logprob_json(const engine::TokenInfo& info, const tokenizer::Tokenizer& tokenizer) {
  Json json = entry(info.chosen.logprob, info.bytes);
  Json top = Json::array();
  for (const engine::TokenLogprob& candidate : info.top) {
    top.push_back(entry(candidate.logprob, tokenizer.piece(candidate.token, /*special=*/true)));
  }
  json["top_logprobs"] = std::move(top);
  return json;
}

}  // namespace tempo9::server
