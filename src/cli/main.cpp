// tempo9: flags and subcommands. With a model it serves; the subcommands are instruments.
#include <fmt/format.h>

#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace tempo9::cli;
  CLI::App app("tempo9: a local LLM server for GGUF models", "tempo9");
  app.set_version_flag("--version", "tempo9 " TEMPO9_VERSION);
  int exit_code = kExitOk;
  add_inspect_command(app, exit_code);
  add_eval_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_render_command(app, exit_code);
  add_tokenize_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return exit_code;
}
