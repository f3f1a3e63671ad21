// The Anthropic dialect: spec api section 2 (errors).
#pragma once

#include "server/dialects/dialect.h"

namespace tempo9::server {

extern const Dialect kAnthropic;

}  // namespace tempo9::server
