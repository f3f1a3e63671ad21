// What an engine's stream gives until its last event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "engine/service.h"

namespace tempo9::testing {

struct Answer {
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<engine::TokenInfo> logprobs;
  std::optional<engine::FinishReason> finish;
  std::optional<Error> error;
  engine::Usage usage;
};

inline Answer read_all(engine::Stream& stream) {
  Answer answer;
  while (true) {
    engine::Event event = stream.wait();
    answer.text += event.text;
    answer.tokens.insert(answer.tokens.end(), event.tokens.begin(), event.tokens.end());
    std::ranges::move(event.logprobs, std::back_inserter(answer.logprobs));
    if (!event.finish && !event.error) continue;
    answer.finish = event.finish;
    answer.error = std::move(event.error);
    answer.usage = event.usage;
    return answer;
  }
}

}  // namespace tempo9::testing
