#include "cli/cache_folder.h"

#include <cstdlib>

namespace tempo9::cli {

std::filesystem::path cache_folder(std::string_view name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::filesystem::path(cache) / "tempo9" / name;
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache" / "tempo9" / name;
  return {};
}

}  // namespace tempo9::cli
