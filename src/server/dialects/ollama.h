// The Ollama dialect: spec api section 2 (errors).
#pragma once

#include "server/dialects/dialect.h"

namespace tempo9::server {

extern const Dialect kOllama;

}  // namespace tempo9::server
