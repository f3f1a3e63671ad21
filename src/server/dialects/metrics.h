// /metrics: what the engine and the image service count, as Prometheus' text format. docs/observability.md lists all.
#pragma once

#include <string>

#include "server/app.h"

namespace tempo9::server {

std::string metrics_page(const App& app);

}  // namespace tempo9::server
