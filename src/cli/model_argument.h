// FILE|MODEL as an argument of the commands that take either.
#pragma once

#include "cli/serve_options.h"

namespace tempo9::cli {

// What was given as a file and is none may be the name of one of Ollama's models: then it becomes options.ollama.
void resolve_model_argument(ServeOptions& options);

}  // namespace tempo9::cli
