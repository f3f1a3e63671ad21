// `tempo9 bench`: prefill and decode speed of a model on the CPU backend, without engine or server.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "cli/commands.h"
#include "cli/kv_type.h"
#include "gguf/file.h"
#include "kv/cache.h"
#include "models/model.h"
#include "tensor/kv_type_names.h"

namespace tempo9::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kStepRows = 512;

struct BenchFlags {
  std::string gguf;
  int64_t prompt_tokens = 512;
  int64_t decode_tokens = 128;
  int64_t depth = 0;
  std::vector<int64_t> batch_sizes = {1, 4, 8};
  int threads = 0;
  std::string isa;
  std::string kv_type;
  bool in_place = false;
  int repetitions = 5;
  bool json = false;
};

// One line of the result: tokens per second of each repetition.
struct Measurement {
  std::string name;
  int64_t sequences = 1;
  int64_t tokens = 0;  // per repetition, of all sequences
  std::vector<double> rates;

  double median() const {
    std::vector<double> sorted = rates;
    std::ranges::sort(sorted);
    const size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  double slowest() const { return std::ranges::min(rates); }
  double fastest() const { return std::ranges::max(rates); }
};

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.size(), line.find(':') + 2));
  }
  return "unknown CPU";
}

// A batch that owns its vectors.
struct Rows {
  std::vector<int32_t> tokens, sequences, slots, outputs;

  void add(int32_t token, int32_t sequence, int64_t slot) {
    tokens.push_back(token);
    sequences.push_back(sequence);
    slots.push_back(static_cast<int32_t>(slot));
  }
  tensor::Batch batch(const tensor::KvView& kv, const tensor::StateView& states) const {
    return {.tokens = tokens,
            .sequences = sequences,
            .slots = slots,
            .positions = slots,
            .outputs = outputs,
            .kv = kv,
            .states = states};
  }
};

// A compiled model, with sequences that are as long before each measurement as before the first. What the tokens are
// does not matter to the speed, so they come from a fixed generator.
class Bench {
 public:
  static Result<Bench> create(const BenchFlags& flags) {
    Bench bench;
    T9_TRY(file, gguf::File::open(flags.gguf));
    T9_TRY(model, models::load_model(std::move(file)));
    const auto tiling = flags.in_place ? backends::Tiling::kNever : backends::Tiling::kBefore;
    T9_TRY(backend, backends::make_cpu_backend({.n_threads = flags.threads, .isa = flags.isa, .tiling = tiling}));
    T9_TRY(kv_type, choose_kv_type(backend->kv_types(), flags.kv_type));
    const int64_t max_sequences = std::max<int64_t>(1, std::ranges::max(flags.batch_sizes));
    const int64_t max_rows = std::max(kStepRows, max_sequences);
    T9_TRY(executable,
           backend->compile(model.program, model.weights, {.max_rows = max_rows, .max_outputs = max_sequences}));
    // Each sequence may end inside a page.
    const int64_t tokens = flags.prompt_tokens + max_sequences * (flags.depth + flags.decode_tokens);
    T9_TRY(cache, kv::Cache::create(*backend, model.program.kv_layers, model.program.state_layers,
                                    {.type = kv_type,
                                     .max_tokens = tokens + (max_sequences + 1) * tensor::kPageTokens,
                                     .max_sequences = max_sequences + 1}));
    bench.kv_type_ = kv_type;
    bench.model_ = std::make_unique<models::Model>(std::move(model));
    bench.backend_ = std::move(backend);
    bench.executable_ = std::move(executable);
    bench.cache_ = std::move(cache);
    bench.logits_.resize(static_cast<size_t>(max_sequences * bench.model_->info.n_vocab));
    return bench;
  }

  const models::Model& model() const { return *model_; }
  std::string backend() const { return backend_->description(); }
  std::string_view kv_type() const { return tensor::kv_type_name(kv_type_); }

  // Seconds for a prompt of `n` tokens in steps of 512 rows, with the logits of the last.
  Result<double> prefill(int64_t n) {
    T9_TRY(id, cache_->add_sequence());
    T9_TRY(seconds, read_prompt(id, n));
    cache_->remove_sequence(id);
    return seconds;
  }

  // Seconds for `n` steps that add a token to each of `n_sequences` sequences, which hold `depth` tokens.
  Result<double> decode(int64_t n_sequences, int64_t n, int64_t depth) {
    while (std::ssize(decoding_) < n_sequences) {
      T9_TRY(id, cache_->add_sequence());
      if (depth > 0) T9_TRY_VOID(read_prompt(id, depth));
      decoding_.push_back(id);
    }
    const auto ids = std::span(decoding_).first(static_cast<size_t>(n_sequences));
    for (const kv::SequenceId id : ids) T9_TRY_VOID(cache_->grow(id, depth + n));
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t slot = depth; slot < depth + n; ++slot) {
      Rows rows;
      for (int32_t sequence = 0; sequence < n_sequences; ++sequence) {
        rows.outputs.push_back(sequence);
        rows.add(next_token(), sequence, slot);
      }
      run(rows, ids);
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    for (const kv::SequenceId id : ids) cache_->truncate(id, depth);
    return spent.count();
  }

 private:
  Bench() = default;

  int32_t next_token() { return static_cast<int32_t>(random_() % static_cast<uint64_t>(model_->info.n_vocab)); }

  // Seconds.
  Result<double> read_prompt(kv::SequenceId id, int64_t n) {
    T9_TRY_VOID(cache_->grow(id, n));
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t first = 0; first < n; first += kStepRows) {
      Rows rows;
      const int64_t end = std::min(n, first + kStepRows);
      for (int64_t slot = first; slot < end; ++slot) rows.add(next_token(), 0, slot);
      if (end == n) rows.outputs.push_back(static_cast<int32_t>(end - first - 1));
      run(rows, {&id, 1});
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    return spent.count();
  }

  void run(const Rows& rows, std::span<const kv::SequenceId> ids) {
    const int64_t n_vocab = model_->info.n_vocab;
    const tensor::MatView<float> logits{logits_.data(), std::ssize(rows.outputs), n_vocab, n_vocab};
    executable_->run(rows.batch(cache_->view(ids), cache_->states(ids)), {.logits = logits});
  }

  std::unique_ptr<models::Model> model_;
  std::unique_ptr<backends::Backend> backend_;
  std::unique_ptr<backends::Executable> executable_;
  std::unique_ptr<kv::Cache> cache_;
  tensor::KvType kv_type_ = tensor::KvType::kF16;
  std::vector<kv::SequenceId> decoding_;
  std::vector<float> logits_;
  std::mt19937_64 random_{1};
};

// One repetition of everything after another, so that a slow moment of the machine hits all lines alike. The first,
// which pages in the weights, is not counted.
Result<std::vector<Measurement>> measure(Bench& bench, const BenchFlags& flags) {
  std::vector<Measurement> results;
  if (flags.prompt_tokens > 0) {
    results.push_back({.name = "prefill", .tokens = flags.prompt_tokens, .rates = {}});
  }
  for (const int64_t n : flags.batch_sizes) {
    if (flags.decode_tokens == 0) break;
    results.push_back({.name = "decode", .sequences = n, .tokens = n * flags.decode_tokens, .rates = {}});
  }
  for (int repetition = -1; repetition < flags.repetitions; ++repetition) {
    for (Measurement& result : results) {
      T9_TRY(seconds, result.name == "prefill" ? bench.prefill(flags.prompt_tokens)
                                               : bench.decode(result.sequences, flags.decode_tokens, flags.depth));
      if (repetition >= 0) result.rates.push_back(static_cast<double>(result.tokens) / seconds);
    }
  }
  return results;
}

void print_table(const BenchFlags& flags, const Bench& bench, const std::vector<Measurement>& results) {
  const models::ModelInfo& info = bench.model().info;
  fmt::print("machine  {}\nbackend  {}, KV {}\nmodel    {} ({}, {:.0f}M parameters)\n\n", cpu_model(), bench.backend(),
             bench.kv_type(), flags.gguf, info.architecture, static_cast<double>(info.n_parameters) / 1e6);
  fmt::print("{:<24} {:>10} {:>10} {:>10}   of {} runs\n", "tokens per second", "median", "slowest", "fastest",
             flags.repetitions);
  for (const Measurement& result : results) {
    const std::string name =
        result.name == "prefill"
            ? fmt::format("prefill {}", result.tokens)
            : fmt::format("decode {}{}, {} together", result.tokens / result.sequences,
                          flags.depth > 0 ? fmt::format(" after {}", flags.depth) : "", result.sequences);
    fmt::print("{:<24} {:>10.1f} {:>10.1f} {:>10.1f}\n", name, result.median(), result.slowest(), result.fastest());
  }
}

void print_json(const BenchFlags& flags, const Bench& bench, const std::vector<Measurement>& results) {
  Json json{{"machine", cpu_model()}, {"backend", bench.backend()}, {"kv_type", bench.kv_type()},
            {"depth", flags.depth},   {"model", flags.gguf},        {"results", Json::array()}};
  for (const Measurement& result : results) {
    json["results"].push_back({{"name", result.name},
                               {"sequences", result.sequences},
                               {"tokens", result.tokens},
                               {"median_tokens_per_second", result.median()},
                               {"tokens_per_second", result.rates}});
  }
  fmt::print("{}\n", json.dump(2));
}

int run(const BenchFlags& flags) {
  auto bench = Bench::create(flags);
  if (!bench) {
    fmt::print(stderr, "tempo9 bench: {}\n", bench.error().message());
    return kExitFailure;
  }
  const auto results = measure(*bench, flags);
  if (!results) {
    fmt::print(stderr, "tempo9 bench: {}\n", results.error().message());
    return kExitFailure;
  }
  if (flags.json) {
    print_json(flags, *bench, *results);
  } else {
    print_table(flags, *bench, *results);
  }
  return kExitOk;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "measure prefill and decode speed");
  const auto flags = std::make_shared<BenchFlags>();
  command->add_option("--gguf", flags->gguf, "model file; needed unless a subcommand has one");
  command->add_option("-p,--prompt", flags->prompt_tokens, "tokens of the prompt; 0: no prefill")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("-n,--decode", flags->decode_tokens, "tokens to decode per sequence; 0: no decode")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("-d,--depth", flags->depth, "tokens that each sequence holds before it decodes")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("-b,--batch", flags->batch_sizes, "sequences that decode together, several separated by commas")
      ->delimiter(',')
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads; 0: one per core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--isa", flags->isa, "instruction set instead of the best this machine has");
  add_kv_type_option(*command, flags->kv_type);
  command->add_flag("--in-place", flags->in_place, "read weights as they lie in the file, not as tiles");
  command->add_option("-r,--repetitions", flags->repetitions, "runs of each measurement")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON");
  add_bench_spec_command(*command, exit_code);
  command->callback([=, &exit_code] {
    if (!command->get_subcommands().empty()) return;
    if (flags->gguf.empty()) throw CLI::RequiredError("--gguf");
    exit_code = run(*flags);
  });
}

}  // namespace tempo9::cli
