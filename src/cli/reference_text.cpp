#include "cli/reference_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "cli/usage.h"

namespace tempo9::cli {
namespace {

// One thing that may be written after `tempo9` or one of its commands.
struct Flag {
  std::string name;   // "--port"; without dashes a positional
  std::string value;  // "N"; empty when it takes none
  std::string meaning;
  std::string group;
};

struct Command {
  std::string name;  // "bench", and "bench spec" for a command of a command; empty: tempo9 itself
  std::string meaning;
  std::string notes;  // what the help says at its end; for the manual
  std::vector<Flag> flags;
};

std::string with_default(const CLI::Option& option) {
  const std::string value = option.get_default_str();
  return value.empty() ? option.get_description() : fmt::format("{} (default: {})", option.get_description(), value);
}

using Subcommands = std::vector<const CLI::App*>;

// Commands that have a name: groups of options are commands without one to CLI11.
Subcommands named_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}
Subcommands option_groups(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return command->get_name().empty(); });
}

void describe_flags(const CLI::App& app, Command& command) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    const bool takes_value = option->get_items_expected_max() > 0;
    const std::vector<std::string>& names = option->get_lnames();
    command.flags.push_back({.name = names.empty() ? option->get_name(true) : "--" + names.front(),
                             .value = takes_value ? option->get_type_name() : "",
                             .meaning = with_default(*option),
                             .group = option->get_group()});
  }
  for (const CLI::App* group : option_groups(app)) {
    Command flags;
    describe_flags(*group, flags);
    std::ranges::copy_if(flags.flags, std::back_inserter(command.flags),  // each group has a --help of its own
                         [](const Flag& flag) { return flag.name != "--help"; });
  }
}

Command describe(const CLI::App& app, const std::string& name) {
  Command command{.name = name, .meaning = app.get_description(), .notes = app.get_footer()};
  describe_flags(app, command);
  return command;
}

void describe_commands(const CLI::App& app, const std::string& prefix, std::vector<Command>& commands) {
  for (const CLI::App* command : named_commands(app)) {
    commands.push_back(describe(*command, prefix + command->get_name()));
    describe_commands(*command, commands.back().name + " ", commands);
  }
}

// tempo9 itself, then its commands, each before its own.
std::vector<Command> describe_all(const CLI::App& app) {
  std::vector<Command> commands = {describe(app, "")};
  describe_commands(app, "", commands);
  return commands;
}

// "spec" of "bench spec".
std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }
bool is_nested(const Command& command) { return command.name.find(' ') != std::string::npos; }

// The words that may follow `name`: its own commands.
std::string command_names(const std::vector<Command>& commands, const std::string& name) {
  const std::string prefix = name.empty() ? "" : name + " ";
  std::string names;
  for (const Command& command : commands) {
    if (command.name.size() <= prefix.size() || !command.name.starts_with(prefix)) continue;
    const std::string rest = command.name.substr(prefix.size());
    if (rest.find(' ') == std::string::npos) names += (names.empty() ? "" : " ") + rest;
  }
  return names;
}

bool is_flag(const Flag& flag) { return flag.name.starts_with("--"); }

std::string flag_names(const Command& command) {
  std::string names;
  for (const Flag& flag : command.flags) {
    if (is_flag(flag)) names += (names.empty() ? "" : " ") + flag.name;
  }
  return names;
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Inside single quotes, as each of the shells reads them.
std::string shell_quoted(const std::string& text) { return "'" + replace_all(text, "'", "'\\''") + "'"; }

std::string bash_script(const std::vector<Command>& commands) {
  std::string cases;
  for (const Command& command : commands) {
    if (command.name.empty()) continue;
    cases += fmt::format("      {}) flags={} commands={}; n=$((i + 1)) ;;\n", shell_quoted(command.name),
                         shell_quoted(flag_names(command)), shell_quoted(command_names(commands, command.name)));
  }
  return fmt::format(
      "# bash completion for tempo9; made by `tempo9 completion bash`\n"
      "_tempo9() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} commands={} flags={} called= i n=1\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${{called:+$called }}${{COMP_WORDS[i]}} in\n{}"
      "      *) break ;;\n"
      "    esac\n"
      "    called=${{called:+$called }}${{COMP_WORDS[i]}}\n"
      "  done\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags\" -- \"$word\"))\n"
      "  else\n"
      "    [[ $COMP_CWORD -eq $n ]] || commands=\n"
      "    COMPREPLY=($(compgen -W \"$commands\" -- \"$word\") $(compgen -f -- \"$word\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _tempo9 tempo9\n",
      shell_quoted(command_names(commands, "")), shell_quoted(flag_names(commands.front())), cases);
}

// One argument of zsh's _arguments: '--port=[meaning]:N:'. Brackets and colons end its parts.
std::string zsh_argument(const Flag& flag) {
  std::string meaning = replace_all(replace_all(flag.meaning, "[", "("), "]", ")");
  const bool is_path =
      flag.value == "PATH" || flag.value.starts_with("FILE") || flag.value == "TEXT" || flag.value == "DIR";
  if (!is_flag(flag)) return "'*:file:_files'";
  if (flag.value.empty()) return shell_quoted(fmt::format("{}[{}]", flag.name, meaning));
  return shell_quoted(
      fmt::format("{}=[{}]:{}:{}", flag.name, meaning, replace_all(flag.value, ":", "\\:"), is_path ? "_files" : ""));
}

std::string zsh_arguments(const Command& command) {
  std::string text = "_arguments";
  for (const Flag& flag : command.flags) text += " \\\n        " + zsh_argument(flag);
  return text;
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string list;
  std::string cases;
  for (const Command& command : commands) {
    if (command.name.empty()) continue;
    if (!is_nested(command)) list += "    " + shell_quoted(command.name + ":" + command.meaning) + "\n";
    const std::string own = command_names(commands, command.name);
    const std::string values = own.empty() ? "" : fmt::format(" \\\n        '1:command:({})'", own);
    // A command of a command is asked for first: its name has the other's before it.
    const std::string pattern =
        is_nested(command) ? shell_quoted(command.name) : shell_quoted(command.name + " ") + "*";
    const int n_words = is_nested(command) ? 2 : 1;
    cases = fmt::format(
                "    {})\n      words=(${{words[1]}} ${{words[{},-1]}}); (( CURRENT -= {} ))\n      {}{}\n      ;;\n",
                pattern, n_words + 2, n_words, zsh_arguments(command), values) +
            cases;
  }
  return fmt::format(
      "#compdef tempo9\n"
      "# zsh completion for tempo9; made by `tempo9 completion zsh`\n"
      "_tempo9() {{\n"
      "  local -a commands\n"
      "  commands=(\n{}  )\n"
      "  case \"${{words[2]}} ${{words[3]}}\" in\n{}"
      "    *)\n"
      "      (( CURRENT == 2 )) && _describe command commands\n"
      "      {} \\\n        '*:file:_files'\n"
      "      ;;\n"
      "  esac\n"
      "}}\n"
      "_tempo9 \"$@\"\n",
      list, cases, zsh_arguments(commands.front()));
}

std::string fish_condition(const Command& command) {
  if (command.name.empty()) return "__fish_use_subcommand";
  const std::string seen = "__fish_seen_subcommand_from ";
  return seen + replace_all(command.name, " ", "; and " + seen);
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string text = "# fish completion for tempo9; made by `tempo9 completion fish`\n";
  for (const Command& command : commands) {
    if (!command.name.empty()) {
      const std::string where = is_nested(command)
                                    ? "__fish_seen_subcommand_from " + command.name.substr(0, command.name.rfind(' '))
                                    : "__fish_use_subcommand";
      text += fmt::format("complete -c tempo9 -n {} -a {} -d {}\n", shell_quoted(where), last_word(command.name),
                          shell_quoted(command.meaning));
    }
    for (const Flag& flag : command.flags) {
      if (!is_flag(flag)) continue;
      text += fmt::format("complete -c tempo9 -n {} -l {}{} -d {}\n", shell_quoted(fish_condition(command)),
                          flag.name.substr(2), flag.value.empty() ? "" : " -r", shell_quoted(flag.meaning));
    }
  }
  return text;
}

// Text for troff: a backslash and a dash have other meanings there, and so has a dot or quote at a line's beginning.
std::string troff(const std::string& text) {
  const std::string escaped = replace_all(replace_all(text, "\\", "\\e"), "-", "\\-");
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

std::string troff_flag(const Flag& flag) {
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", troff(flag.name),
                     flag.value.empty() || !is_flag(flag) ? "" : " \\fI" + troff(flag.value) + "\\fR",
                     troff(flag.meaning));
}

// The flags in the order of their groups' first appearance.
std::string troff_groups(const Command& command) {
  std::vector<std::string> groups;
  for (const Flag& flag : command.flags) {
    if (std::ranges::find(groups, flag.group) == groups.end()) groups.push_back(flag.group);
  }
  std::string text;
  for (const std::string& group : groups) {
    text += fmt::format(".SS {}\n", troff(group));
    for (const Flag& flag : command.flags) {
      if (flag.group == group) text += troff_flag(flag);
    }
  }
  return text;
}

}  // namespace

Result<std::string> completion_script(const CLI::App& app, std::string_view shell) {
  const std::vector<Command> commands = describe_all(app);
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  return fail(ErrorCode::kInvalidInput, fmt::format("completion {}: bash, zsh and fish are known", shell));
}

std::string manual_page(const CLI::App& app) {
  const std::vector<Command> commands = describe_all(app);
  std::string text = fmt::format(
      ".TH TEMPO9 1 \"2026-12-01\" \"tempo9 {}\" \"User commands\"\n"
      ".SH NAME\ntempo9 \\- {}\n"
      ".SH SYNOPSIS\n.B tempo9 \\-\\-gguf\n.I FILE\n[flags]\n.br\n.B tempo9\n.I COMMAND\n[flags]\n"
      ".SH DESCRIPTION\n{}\n"
      ".SH FLAGS\n",
      TEMPO9_VERSION, "a local LLM server for GGUF models", troff(std::string(description())));
  text += troff_groups(commands.front());
  text += ".SH COMMANDS\n";
  for (const Command& command : commands) {
    if (command.name.empty()) continue;
    text += fmt::format(".SS tempo9 {}\n{}\n", troff(command.name), troff(command.meaning));
    for (const Flag& flag : command.flags) text += troff_flag(flag);
    if (!command.notes.empty()) text += ".PP\n" + troff(command.notes) + "\n";
  }
  text += ".SH ENVIRONMENT\n";
  for (const EnvironmentVariable& variable : environment_variables()) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", variable.name, troff(std::string(variable.meaning)));
  }
  text += ".SH EXIT STATUS\n0 done, 1 it did not work, 2 wrong usage.\n.SH EXAMPLES\n.nf\n";
  for (const std::string_view example : examples()) text += troff(std::string(example)) + "\n";
  return text + ".fi\n";
}

}  // namespace tempo9::cli
