// What the instruments read: standard input and small files, whole.
#pragma once

#include <string>

#include "base/result.h"

namespace tempo9::cli {

std::string read_stdin();
Result<std::string> read_file(const std::string& path);

}  // namespace tempo9::cli
