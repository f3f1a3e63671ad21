// tempo9: flags and subcommands. With a model it serves; the subcommands are instruments.
#include "cli/commands.h"
#include "cli/serve.h"
#include "cli/usage.h"

int main(int argc, char** argv) {
  using namespace tempo9::cli;
  CLI::App app("tempo9: a local LLM server for GGUF models", "tempo9");
  app.set_version_flag("--version", "tempo9 " TEMPO9_VERSION);
  add_help_texts(app);
  ServeOptions serve_options;
  add_serve_options(app, serve_options);
  int exit_code = kExitOk;
  add_inspect_command(app, exit_code);
  add_eval_command(app, exit_code);
  add_bench_command(app, exit_code);
  add_render_command(app, exit_code);
  add_parse_command(app, exit_code);
  add_tokenize_command(app, exit_code);
  add_tower_command(app, exit_code);
  add_reference_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_parse_end(app, error);
  }
  return app.get_subcommands().empty() ? serve(serve_options) : exit_code;
}
