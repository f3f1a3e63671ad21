// The dialects, one file each.
#pragma once

#include "chat/tools/dialect.h"

namespace tempo9::chat::tools {

extern const Dialect kHarmony;
extern const Dialect kGemma4;
extern const Dialect kMistralV13;
extern const Dialect kMistralJson;
extern const Dialect kQwenXml;
extern const Dialect kHermesJson;
extern const Dialect kLlama3;
extern const Dialect kGeneric;

}  // namespace tempo9::chat::tools
