// Pages for people and monitors: /, /health, /metrics.
#pragma once

#include "server/dialects/dialect.h"

namespace tempo9::server {

extern const Dialect kServicePages;

}  // namespace tempo9::server
