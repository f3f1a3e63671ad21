#include "cli/input.h"

#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace tempo9::cli {

std::string read_stdin() { return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}; }

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return fail(ErrorCode::kIo, fmt::format("{}: cannot be read", path));
  return std::move(text).str();
}

}  // namespace tempo9::cli
