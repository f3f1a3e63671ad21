// tempo9: flags and subcommands. With a model it serves; the subcommands are instruments.
#include <fmt/format.h>

#include <filesystem>
#include <string>

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
  add_chat_command(app, exit_code);
  add_doctor_command(app, exit_code);
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
  if (!app.get_subcommands().empty()) return exit_code;
  const std::string& file = serve_options.gguf;
  const std::string command = std::filesystem::exists(file) ? "" : nearest_command(app, file);
  if (!file.empty() && !command.empty()) {
    fmt::print(stderr, "tempo9: error: {}: no such file; did you mean 'tempo9 {}'?\n", file, command);
    return kExitUsage;
  }
  return serve(serve_options);
}
