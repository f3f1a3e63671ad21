// The command line described for other programs, made from the same flags and texts as --help: shell completions and
// the manual page.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tempo9::cli {

// A script for "bash", "zsh" or "fish". Errors: kInvalidInput for another shell.
Result<std::string> completion_script(const CLI::App& app, std::string_view shell);

// The manual page, section 1, for man(1) to format.
std::string manual_page(const CLI::App& app);

}  // namespace tempo9::cli
