// What the command line says about itself: the help's frame and errors that name the way out.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

namespace tempo9::cli {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view meaning;
};

// The texts that help and manual share.
std::string_view description();
std::span<const EnvironmentVariable> environment_variables();
std::span<const std::string_view> examples();

void add_help_texts(CLI::App& app);
// The command that is nearly spelt so; empty when none is.
std::string nearest_command(const CLI::App& app, std::string_view given);
// Prints help, version or one error line for what `parse` threw. Gives the exit code.
int report_parse_end(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tempo9::cli
