// The main command: load a model and serve it until a signal.
#pragma once

#include "cli/serve_options.h"

namespace tempo9::cli {

// Runs until SIGINT or SIGTERM, or only prints what was asked for. Gives the exit code.
int serve(const ServeOptions& options);

}  // namespace tempo9::cli
