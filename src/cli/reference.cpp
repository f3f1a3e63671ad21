// `tempo9 completion SHELL` and `tempo9 man`: the command line described for shells and for man(1).
#include <fmt/format.h>

#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/reference_text.h"

namespace tempo9::cli {

void add_reference_commands(CLI::App& app, int& exit_code) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print a completion script for bash, zsh or fish");
  completion->add_option("SHELL", *shell, "bash, zsh or fish")->required();
  completion->callback([&app, &exit_code, shell] {
    const auto script = completion_script(app, *shell);
    if (!script) {
      fmt::print(stderr, "tempo9: error: {}\n", script.error().message());
      exit_code = kExitUsage;
      return;
    }
    fmt::print("{}", *script);
  });
  CLI::App* manual = app.add_subcommand("man", "Print the manual page; 'tempo9 man | man -l -' shows it");
  manual->callback([&app] { fmt::print("{}", manual_page(app)); });
}

}  // namespace tempo9::cli
