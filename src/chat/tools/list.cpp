// All tool dialects.
#include <algorithm>

#include "chat/tools/dialects.h"

namespace tempo9::chat::tools {
namespace {

// Narrower marks come before those that they contain.
constexpr const Dialect* kDialects[] = {
    &kHarmony, &kGemma4, &kMistralV13, &kMistralJson, &kQwenXml, &kHermesJson, &kLlama3, &kGeneric,
};

}  // namespace

std::span<const Dialect* const> all_dialects() { return kDialects; }

const Dialect* find_dialect(std::string_view name) {
  const auto it = std::ranges::find(kDialects, name, &Dialect::name);
  return it == std::end(kDialects) ? nullptr : *it;
}

const Dialect& choose_dialect(std::string_view template_text) {
  return **std::ranges::find_if(kDialects, [&](const Dialect* dialect) { return dialect->fits(template_text); });
}

}  // namespace tempo9::chat::tools
