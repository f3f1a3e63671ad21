// The main command: load a model and serve it until a signal.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace tempo9::cli {

struct ServeOptions {
  std::string gguf;
  std::string name;
  std::string chat_template;  // path; empty: the model file's own
  std::string graph;          // path of the compute graph; "off"; empty: in the cache folder
  uint16_t port = 11435;
  int64_t max_length = 32768;
  int64_t max_batch = 16;
  int n_threads = 0;
  std::string isa;
  std::string backend = "cpu";
  std::string log_level = "info";
  // A flag that this version does not have, if one was given: a usage error.
  std::string missing_flag;
};

// Adds the flags; `options` outlives `app`.
void add_serve_options(CLI::App& app, ServeOptions& options);
// Runs until SIGINT or SIGTERM. Gives the exit code.
int serve(const ServeOptions& options);

}  // namespace tempo9::cli
