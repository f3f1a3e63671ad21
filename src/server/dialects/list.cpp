// All dialects. To add one: its file, its line here.
#include <array>

#include "server/dialects/anthropic.h"
#include "server/dialects/dialect.h"
#include "server/dialects/ollama.h"
#include "server/dialects/openai.h"
#include "server/dialects/openai_responses.h"
#include "server/dialects/service_pages.h"

namespace tempo9::server {

std::span<const Dialect* const> all_dialects() {
  static constexpr std::array<const Dialect*, 5> kDialects = {&kOllama, &kAnthropic, &kServicePages, &kOpenAiResponses,
                                                              &kOpenAi};
  return kDialects;
}

}  // namespace tempo9::server
