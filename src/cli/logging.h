// Log lines to stderr, one per event.
#pragma once

#include <string>

namespace tempo9::cli {

// Once, before anything logs. `level`: error, warn, info or debug.
void set_up_logging(const std::string& level);

}  // namespace tempo9::cli
