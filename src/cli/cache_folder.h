// Where tempo9 keeps what it can make again.
#pragma once

#include <filesystem>
#include <string_view>

namespace tempo9::cli {

// ${XDG_CACHE_HOME:-~/.cache}/tempo9/NAME, which need not exist. Empty without a home: then nothing is kept.
std::filesystem::path cache_folder(std::string_view name);

}  // namespace tempo9::cli
