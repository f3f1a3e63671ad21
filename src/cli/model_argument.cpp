#include "cli/model_argument.h"

#include <filesystem>
#include <system_error>
#include <utility>

namespace tempo9::cli {

void resolve_model_argument(ServeOptions& options) {
  std::error_code error;
  const bool is_url = options.gguf.find("://") != std::string::npos;
  const bool is_name = !options.gguf.empty() && options.ollama.empty() && !is_url && !options.gguf.ends_with(".gguf") &&
                       !std::filesystem::exists(options.gguf, error);
  if (is_name) options.ollama = std::exchange(options.gguf, {});
}

}  // namespace tempo9::cli
