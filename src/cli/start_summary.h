// What the main command says once it serves.
#pragma once

#include <cstdint>

#include "cli/serve_options.h"
#include "cli/served_model.h"

namespace tempo9::cli {

// Model, context, memory, address, and a line to try next, on stderr.
void print_start_summary(const ServedModel& served, const ServeOptions& options, int64_t context_length, uint16_t port);

}  // namespace tempo9::cli
