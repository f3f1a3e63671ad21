// The subcommands of the tempo9 binary, one file each. main.cpp lists them.
#pragma once

#include <CLI/CLI.hpp>

namespace tempo9::cli {

// Exit codes: 0 done, 1 it did not work, 2 wrong usage.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Each adds its subcommand to `app`; when that is the one called, it runs from a callback and sets `exit_code`.
void add_chat_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_inspect_command(CLI::App& app, int& exit_code);
void add_eval_command(CLI::App& app, int& exit_code);
void add_tokenize_command(CLI::App& app, int& exit_code);
void add_render_command(CLI::App& app, int& exit_code);
void add_parse_command(CLI::App& app, int& exit_code);
void add_tower_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_reference_commands(CLI::App& app, int& exit_code);
void add_bench_spec_command(CLI::App& bench, int& exit_code);  // a subcommand of bench

}  // namespace tempo9::cli
