// The template engine on hostile sources and messages: the bytes up to the first NUL are a template, the rest is the
// content of a message. Whatever is rendered must have well-formed trusted ranges.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/template/template.h"

using namespace tempo9;
using namespace tempo9::chat;

namespace {

// Small enough that a single input cannot take long.
TemplateLimits fuzz_limits() {
  TemplateLimits limits;
  limits.source_bytes = 1 << 16;
  limits.output_bytes = 1 << 18;
  limits.memory_bytes = 16 << 20;
  limits.steps = 100'000;
  limits.depth = 100;
  return limits;
}

Json variables_with(const std::string& content) {
  Json messages = Json::parse(R"([{"role":"system","content":"s"},{"role":"user"},{"role":"assistant","content":null,
      "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"a":[1,2.5,null,true]}}}]}])");
  messages[1]["content"] = content;
  return {{"messages", messages},
          {"add_generation_prompt", true},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"},
          {"x", content}};
}

void check_ranges(const Rendered& rendered) {
  size_t end = 0;
  for (size_t i = 0; i < rendered.trusted.size(); ++i) {
    const auto& range = rendered.trusted[i];
    T9_CHECK(range.begin < range.end && range.end <= rendered.text.size());
    T9_CHECK(i == 0 || range.begin > end);
    end = range.end;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t split = std::min(input.find('\0'), input.size());
  RenderOptions options;
  options.limits = fuzz_limits();
  options.now = {};
  auto parsed = Template::parse(input.substr(0, split), options.limits);
  if (!parsed) return 0;
  auto rendered = parsed->render(variables_with(sanitize_utf8(input.substr(split))), options);
  if (rendered) check_ranges(*rendered);
  return 0;
}
