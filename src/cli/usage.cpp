#include "cli/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"

namespace tempo9::cli {

namespace {

// Insertions, deletions and changes of one character that make `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, change}));
    }
  }
  return row[b.size()];
}

std::string nearest_flag(const CLI::App& app, std::string_view given) {
  constexpr size_t kCloseEnough = 3;
  std::string nearest;
  size_t least = kCloseEnough + 1;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::string flag = "--" + name;
      const size_t distance = flag.starts_with(given) ? 1 : edit_distance(given, flag);
      if (distance < least) {
        least = distance;
        nearest = flag;
      }
    }
  }
  return nearest;
}

// The subcommand that was called, or the program itself.
const CLI::App& innermost(const CLI::App& app) {
  const auto called = app.get_subcommands();
  return called.empty() ? app : innermost(*called.front());
}

std::string describe_extra(const CLI::App& app, const std::string& argument) {
  if (!argument.starts_with("-")) return fmt::format("unexpected argument '{}'; see 'tempo9 --help'", argument);
  const std::string flag = argument.substr(0, argument.find('='));
  const std::string nearest = nearest_flag(app, flag);
  return nearest.empty() ? fmt::format("unknown flag {}; see 'tempo9 --help'", flag)
                         : fmt::format("unknown flag {}; did you mean {}?", flag, nearest);
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_parent()) return CLI::Formatter::make_usage(app, name);
    return "Usage: tempo9 --gguf FILE [flags]    serve a model\n"
           "       tempo9 COMMAND [flags]        an instrument; see tempo9 COMMAND --help\n";
  }
};

}  // namespace

std::string_view description() {
  return "Loads a GGUF model file as it is and serves it to many clients at once, through the OpenAI, Anthropic and "
         "Ollama APIs. Serves 127.0.0.1 only, without authentication: keep it off tunnels and reverse proxies.";
}

std::span<const EnvironmentVariable> environment_variables() {
  static constexpr EnvironmentVariable kVariables[] = {
      {"AS_KV_OFFLOAD", "0 turns the KV cache on disk off"},
      {"AS_KV_OFFLOAD_GB", "Its cap in GB; default: 16"},
      {"AS_KV_OFFLOAD_PATH", "Its folder; default: kv in the cache folder"},
      {"AS_SPEC_MIN_ACCEPT", "Share of right guesses below which a request stops guessing; default: 0.60"},
      {"OLLAMA_MODELS", "Ollama's store; default: ~/.ollama/models"},
      {"XDG_CACHE_HOME", "Where the cache folder tempo9 is; default: ~/.cache"},
      {"TEMPO9_ISA", "Instruction set, where --isa names none"},
  };
  return kVariables;
}

std::span<const std::string_view> examples() {
  static constexpr std::string_view kExamples[] = {
      "tempo9 qwen3-8b-q4_k_m.gguf --max-length 65536",
      "tempo9 --ollama qwen3:8b",
      "tempo9 --gguf model.gguf --port 0 --name assistant --max-batch 4",
  };
  return kExamples;
}

std::string nearest_command(const CLI::App& app, std::string_view given) {
  constexpr size_t kCloseEnough = 2;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (edit_distance(given, command->get_name()) <= kCloseEnough) return command->get_name();
  }
  return "";
}

void add_help_texts(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  std::string footer = "Environment:\n";
  for (const EnvironmentVariable& variable : environment_variables()) {
    footer += fmt::format("  {:<28}{}\n", variable.name, variable.meaning);
  }
  footer += "\nExamples:\n";
  for (const std::string_view example : examples()) footer += fmt::format("  {}\n", example);
  app.footer(footer +
             "\nServes 127.0.0.1 only, without authentication: keep it off tunnels and reverse proxies.\n"
             "Exit codes: 0 done, 1 it did not work, 2 wrong usage.");
}

int report_parse_end(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  std::string message = fmt::format("{}; see 'tempo9 --help'", error.what());
  const CLI::App& called = innermost(app);
  if (const auto extras = app.remaining(/*recurse=*/true);
      !extras.empty() && dynamic_cast<const CLI::ExtrasError*>(&error)) {
    message = describe_extra(called, extras.front());
  }
  fmt::print(stderr, "tempo9: error: {}\n", message);
  return kExitUsage;
}

}  // namespace tempo9::cli
