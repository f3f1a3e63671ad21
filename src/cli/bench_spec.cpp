// `tempo9 bench spec`: what speculation gains on real prompts, by workload and depth, against the same engine without,
// in pairs. Answers are compared too: they must not differ.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cpu/cpu.h"
#include "base/utf8.h"
#include "chat/chat_format.h"
#include "chat/json_text.h"
#include "chat/openai_messages.h"
#include "chat/prompt_tokens.h"
#include "cli/commands.h"
#include "cli/kv_type.h"
#include "cli/served_model.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::cli {
namespace {

using Json = nlohmann::ordered_json;

// For what the first round leaves of all prompts, for those after it.
constexpr size_t kWarmBytes = size_t{512} << 20;

struct SpecFlags {
  std::string gguf;
  std::string prompts;
  std::string chat_template;
  std::vector<std::string> depths = {"0", "1", "2", "3", "4", "5", "6", "auto"};
  int64_t max_tokens = 256;
  int64_t together = 1;
  int threads = 0;
  std::string kv_type;
  int rounds = 10;
  double min_acceptance = 0.60;
  double wrong_share = 0.0;
  bool warm = false;
  bool json = false;
};

struct Prompt {
  std::string workload;
  std::vector<int32_t> tokens;
  int64_t max_tokens = 0;  // of the answer
};

// A line is a chat body with a "workload", or has a "prompt" that is text as it is. Its "max_tokens" may be fewer than
// the flag's.
Result<std::vector<Prompt>> read_prompts(const std::string& path, const chat::ChatFormat& format,
                                         const tokenizer::Tokenizer& tokenizer, int64_t max_tokens) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: can't be read", path));
  std::vector<Prompt> prompts;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto json = chat::parse_json_text(sanitize_utf8(line));
    if (!json || !json->is_object() || !json->contains("workload") || !(*json)["workload"].is_string()) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("{}: line {}: no object with a workload", path, prompts.size() + 1));
    }
    Prompt prompt{.workload = (*json)["workload"].get<std::string>(), .tokens = {}, .max_tokens = max_tokens};
    if (json->contains("max_tokens") && (*json)["max_tokens"].is_number_unsigned()) {
      prompt.max_tokens = std::clamp((*json)["max_tokens"].get<int64_t>(), int64_t{1}, max_tokens);
    }
    if (json->contains("prompt") && (*json)["prompt"].is_string()) {
      T9_TRY(tokens, tokenizer.encode((*json)["prompt"].get<std::string>(), {}));
      prompt.tokens = std::move(tokens);
    } else {
      T9_TRY(conversation, chat::parse_openai_conversation(*json));
      T9_TRY(rendered, format.render(conversation, std::chrono::system_clock::time_point{}));
      T9_TRY(tokens, chat::encode_prompt(tokenizer, rendered));
      prompt.tokens = std::move(tokens);
    }
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return fail(ErrorCode::kInvalidInput, fmt::format("{}: no prompts", path));
  return prompts;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What one answer took, or several that ran together.
struct Run {
  std::vector<int32_t> tokens;
  double seconds = 0.0;
  double decode_s = 0.0;  // from the first token to the last, each answer's; 0 where no answer has two
  double cpu_s = 0.0;
  int64_t n_cached = 0;  // tokens of prompts
  int64_t n_drafted = 0;
  int64_t n_accepted = 0;
};

struct Setting {
  std::string depth;
  std::unique_ptr<engine::Engine> engine;
};

Result<Run> answer(engine::Engine& engine, const Prompt& prompt, const SpecFlags& flags) {
  engine::Request request;
  request.prompt = prompt.tokens;
  request.max_tokens = prompt.max_tokens;
  request.sampling.temperature = 0.0f;
  const double cpu_before = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<engine::Stream>> streams;
  for (int64_t i = 0; i < flags.together; ++i) {
    T9_TRY(stream, engine.submit(request));
    streams.push_back(std::move(stream));
  }
  Run run;
  for (const auto& stream : streams) {
    while (true) {
      engine::Event event = stream->wait();
      if (event.error) return fail(std::move(*event.error));
      run.tokens.insert(run.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (!event.finish) continue;
      run.decode_s += event.usage.decode_ms / 1000.0;
      run.n_cached += event.usage.cached_tokens;
      run.n_drafted += event.usage.drafted_tokens;
      run.n_accepted += event.usage.accepted_tokens;
      break;
    }
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  run.cpu_s = cpu_seconds() - cpu_before;
  return run;
}

// 0 of none.
double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const double place = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

// One workload at one depth.
struct Line {
  std::vector<double> speedups;         // of each pair: seconds without over seconds with
  std::vector<double> decode_speedups;  // the same behind the first token; of pairs with more than one
  std::vector<double> cpu_ratios;       // CPU seconds with over without
  int64_t n_prompt_tokens = 0;
  int64_t n_cached = 0;  // of them, each copy's of those that ran together
  int64_t n_tokens = 0;
  double seconds = 0.0;
  int64_t n_drafted = 0;
  int64_t n_accepted = 0;
  int64_t n_different = 0;  // answers
};

using Lines = std::map<std::string, std::map<std::string, Line>>;  // by workload, by depth

void add_pair(Line& line, const Prompt& prompt, const Run& run, const Run& plain) {
  line.speedups.push_back(plain.seconds / run.seconds);
  if (plain.decode_s > 0.0 && run.decode_s > 0.0) line.decode_speedups.push_back(plain.decode_s / run.decode_s);
  line.n_prompt_tokens += std::ssize(prompt.tokens);
  line.n_cached += run.n_cached;
  line.cpu_ratios.push_back(run.cpu_s / plain.cpu_s);
  line.n_tokens += std::ssize(run.tokens);
  line.seconds += run.seconds;
  line.n_drafted += run.n_drafted;
  line.n_accepted += run.n_accepted;
  line.n_different += run.tokens != plain.tokens;
}

// Every setting beside a run without speculation of its own, once before it and once after it in turn.
Result<Lines> measure(const std::vector<Prompt>& prompts, engine::Engine& plain, std::vector<Setting>& settings,
                      const SpecFlags& flags) {
  Lines lines;
  for (int round = -1; round < flags.rounds; ++round) {
    for (const Prompt& prompt : prompts) {
      for (Setting& setting : settings) {
        const bool plain_first = round % 2 == 0;
        Run pair[2];
        for (const bool is_plain : {plain_first, !plain_first}) {
          T9_TRY(run, answer(is_plain ? plain : *setting.engine, prompt, flags));
          pair[is_plain ? 0 : 1] = std::move(run);
        }
        if (round < 0) continue;  // warms up
        add_pair(lines[prompt.workload][setting.depth], prompt, pair[1], pair[0]);
      }
    }
  }
  return lines;
}

Json to_json(const SpecFlags& flags, const std::string& backend, const Lines& lines,
             const std::vector<Setting>& settings) {
  Json json{{"backend", backend}, {"model", flags.gguf}, {"together", flags.together}, {"results", Json::array()}};
  for (const auto& [workload, by_depth] : lines) {
    for (const Setting& setting : settings) {
      const Line& line = by_depth.at(setting.depth);
      const double drafted = static_cast<double>(std::max<int64_t>(line.n_drafted, 1));
      const auto mean = [&](int64_t n) { return static_cast<double>(n) / static_cast<double>(line.speedups.size()); };
      json["results"].push_back(
          {{"workload", workload},
           {"k", setting.depth},
           {"speedup", quantile(line.speedups, 0.5)},
           {"quartiles", {quantile(line.speedups, 0.25), quantile(line.speedups, 0.75)}},
           {"pairs", line.speedups.size()},
           {"decode_speedup", quantile(line.decode_speedups, 0.5)},
           {"decode_quartiles", {quantile(line.decode_speedups, 0.25), quantile(line.decode_speedups, 0.75)}},
           {"prompt_tokens", mean(line.n_prompt_tokens)},
           {"cached_tokens", mean(line.n_cached)},
           {"answer_tokens", mean(line.n_tokens)},
           {"cpu_seconds_ratio", quantile(line.cpu_ratios, 0.5)},
           {"tokens_per_second", static_cast<double>(line.n_tokens) / line.seconds},
           {"drafted", line.n_drafted},
           {"accepted_share", static_cast<double>(line.n_accepted) / drafted},
           {"different_answers", line.n_different}});
    }
  }
  for (const Setting& setting : settings) {
    const engine::SpeculationStats stats = setting.engine->stats().speculation;
    Json drafters = Json::array();
    for (const engine::DrafterStats& drafter : stats.drafters) {
      drafters.push_back(
          {{"proposed", drafter.proposed}, {"accepted", drafter.accepted}, {"gate_closings", drafter.gate_closings}});
    }
    json["engines"].push_back({{"k", setting.depth},
                               {"chosen", stats.steps_by_depth},
                               {"text", drafters[0]},
                               {"block", drafters[1]},
                               {"pass_ms", stats.pass_ms},
                               {"row_ms", stats.row_ms},
                               {"median_error", stats.median_error},
                               {"draft_ms", stats.draft_ms}});
  }
  return json;
}

void print_table(const Json& json) {
  fmt::print("backend  {}\nmodel    {}\n\n", json["backend"].get<std::string>(), json["model"].get<std::string>());
  fmt::print("{:<10} {:>7} {:>7} {:>15} {:>7} {:>15} {:>6} {:>7} {:>12} {:>8} {:>9} {:>6}\n", "workload", "k", "answer",
             "quartiles", "decode", "quartiles", "pairs", "CPU", "tokens", "tok/s", "accepted", "equal");
  for (const Json& line : json["results"]) {
    fmt::print(
        "{:<10} {:>7} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>7.3f} {:>6} {:>7.3f} {:>12} {:>8.1f} "
        "{:>8.1f}% {:>6}\n",
        line["workload"].get<std::string>(), line["k"].get<std::string>(), line["speedup"].get<double>(),
        line["quartiles"][0].get<double>(), line["quartiles"][1].get<double>(), line["decode_speedup"].get<double>(),
        line["decode_quartiles"][0].get<double>(), line["decode_quartiles"][1].get<double>(),
        line["pairs"].get<int64_t>(), line["cpu_seconds_ratio"].get<double>(),
        fmt::format("{:.0f} + {:.0f}", line["prompt_tokens"].get<double>() - line["cached_tokens"].get<double>(),
                    line["answer_tokens"].get<double>()),
        line["tokens_per_second"].get<double>(), 100.0 * line["accepted_share"].get<double>(),
        line["different_answers"] == 0 ? "yes" : "NO");
  }
  fmt::print("\n{:>7} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "k", "a, ms", "b, ms", "error", "draft, ms", "closings");
  for (const Json& engine : json["engines"]) {
    fmt::print("{:>7} {:>9.3f} {:>9.3f} {:>8.1f}% {:>9.3f} {:>8}\n", engine["k"].get<std::string>(),
               engine["pass_ms"].get<double>(), engine["row_ms"].get<double>(),
               100.0 * engine["median_error"].get<double>(), engine["draft_ms"].get<double>(),
               engine["text"]["gate_closings"].get<int64_t>() + engine["block"]["gate_closings"].get<int64_t>());
  }
}

// What a setting's name says: "auto", "3" (up to so many) or "fixed3" (always so many, with no gate).
constexpr std::string_view kFixed = "fixed";

engine::SpeculationOptions speculation_of(std::string_view depth, const SpecFlags& flags) {
  engine::SpeculationOptions options{
      .max_depth = engine::kMaxDepth, .min_acceptance = flags.min_acceptance, .wrong_share = flags.wrong_share};
  if (depth == "auto") return options;
  options.always = depth.starts_with(kFixed);
  if (options.always) depth.remove_prefix(kFixed.size());
  options.max_depth = std::stoll(std::string(depth));
  return options;
}

CLI::Validator is_setting() {
  const auto problem = [](const std::string& text) -> std::string {
    const std::string number = text.starts_with(kFixed) ? text.substr(kFixed.size()) : text;
    int64_t depth = 0;
    const bool is_depth = CLI::detail::lexical_cast(number, depth) && depth >= 0 && depth <= engine::kMaxDepth;
    return text == "auto" || is_depth
               ? ""
               : fmt::format("{} is neither auto nor N nor fixedN, from 0 to {}", text, engine::kMaxDepth);
  };
  return CLI::Validator(problem, "");
}

Result<int> run_bench(const SpecFlags& flags) {
  spdlog::set_level(spdlog::level::warn);
  T9_TRY(opened, gguf::File::open(flags.gguf));
  const std::shared_ptr<const gguf::File> file = std::move(opened);
  T9_TRY(model, models::load_model(file));
  T9_TRY(tokenizer, tokenizer::Tokenizer::create(file->metadata()));
  T9_TRY(format, make_chat_format({.chat_template = flags.chat_template}, file->metadata(), *tokenizer));
  T9_TRY(prompts, read_prompts(flags.prompts, format, *tokenizer, flags.max_tokens));
  T9_TRY(backend, backends::make_cpu_backend({.n_threads = flags.threads, .isa = {}}));
  T9_TRY(kv_type, choose_kv_type(backend->kv_types(), flags.kv_type));
  const auto make_engine = [&](const std::string& depth) {
    engine::EngineOptions options{.context_length = std::min<int64_t>(model.info.context_length, 4096),
                                  .max_batch = std::max<int64_t>(flags.together, 1),
                                  .kv_type = kv_type,
                                  .kept_bytes = flags.warm ? kWarmBytes : 0};
    options.speculation = speculation_of(depth, flags);
    return engine::Engine::create(*backend, model, *tokenizer, options);
  };
  T9_TRY(plain, make_engine("0"));
  std::vector<Setting> settings;
  for (const std::string& depth : flags.depths) {
    T9_TRY(created, make_engine(depth));
    settings.push_back({.depth = depth, .engine = std::move(created)});
  }
  T9_TRY(lines, measure(prompts, *plain, settings, flags));
  const Json json = to_json(flags, backend->description(), lines, settings);
  if (flags.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    print_table(json);
  }
  const bool all_equal =
      std::ranges::all_of(json["results"], [](const Json& r) { return r["different_answers"] == 0; });
  return all_equal ? kExitOk : kExitFailure;
}

int run(const SpecFlags& flags) {
  const auto result = run_bench(flags);
  if (result) return *result;
  fmt::print(stderr, "tempo9 bench spec: {}\n", result.error().message());
  return kExitFailure;
}

}  // namespace

void add_bench_spec_command(CLI::App& bench, int& exit_code) {
  CLI::App* command = bench.add_subcommand(
      "spec", "measure speculation on prompts, each depth in pairs with none; exit code 1 if an answer changes");
  const auto flags = std::make_shared<SpecFlags>();
  command->add_option("--gguf", flags->gguf, "model file")->required();
  command->add_option("--prompts", flags->prompts, "JSON lines: chat bodies, or a \"prompt\"; and a \"workload\"")
      ->required();
  command->add_option("--chat-template", flags->chat_template, "as of serve: a file, or the name of a known one");
  command
      ->add_option("-k,--depths", flags->depths,
                   "depths, several separated by commas: N as --speculation-k, auto, or fixedN: N always, with no gate")
      ->delimiter(',')
      ->check(is_setting())
      ->capture_default_str();
  command->add_option("-n,--max-tokens", flags->max_tokens, "of an answer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--together", flags->together, "copies of each request that run at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--min-acceptance", flags->min_acceptance, "as AS_SPEC_MIN_ACCEPT")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--wrong-drafts", flags->wrong_share, "share of the drafts to make wrong: a drafter that is bad")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("-t,--threads", flags->threads, "threads; 0: one per core")->check(CLI::Range(0, 1024));
  add_kv_type_option(*command, flags->kv_type);
  command->add_option("-r,--rounds", flags->rounds, "pairs per prompt and depth")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--warm", flags->warm, "prompts are in the cache, as those that agents send again");
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace tempo9::cli
