// The flags of the main command.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace tempo9::cli {

struct ServeOptions {
  std::string gguf;
  std::string ollama;        // a model of Ollama's store, instead of `gguf`
  bool list_ollama = false;  // print that store and end
  std::string tower;         // folder of the vision tower; empty: images are refused
  std::string name;
  std::string chat_template;  // path, or name of a known one; empty: the model file's own
  std::string graph;          // path of the compute graph; "off"; empty: in the cache folder
  uint16_t port = 11435;
  int64_t max_length = 32768;
  int64_t max_batch = 16;
  uint64_t memory_bytes = 0;      // for everything but the weights; 0: derived from the machine
  std::string speculation = "0";  // "auto", or the most tokens to guess for a step
  int n_threads = 0;
  std::string isa;
  std::string kv_type;  // empty: the backend's default
  std::string backend = "cpu";
  std::string log_level = "info";
  bool log_text = false;
};

// Adds --speculation-k; `depth` outlives `app`.
CLI::Option* add_speculation_option(CLI::App& app, std::string& depth);
// Of "auto", or a number as the flag takes it: the most tokens to guess for a step.
int64_t speculation_depth(const std::string& depth);

// Adds the flags; `options` outlives `app`.
void add_serve_options(CLI::App& app, ServeOptions& options);

}  // namespace tempo9::cli
