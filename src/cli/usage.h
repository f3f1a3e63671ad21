// What the command line says about itself: the help's frame and errors that name the way out.
#pragma once

#include <CLI/CLI.hpp>

namespace tempo9::cli {

void add_help_texts(CLI::App& app);
// Prints help, version or one error line for what `parse` threw. Gives the exit code.
int report_parse_end(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tempo9::cli
