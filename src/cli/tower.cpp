// `tempo9 tower export`: a vision tower from a projector file, with its gates; `tempo9 tower check`: the gates again.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/cpu/cpu.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/tower_question.h"
#include "gguf/file.h"
#include "models/model.h"
#include "vision/export.h"

namespace tempo9::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TowerFlags {
  std::string projector;
  std::string folder;
  std::string model;
  std::string weights = "q8_0";
  int64_t min_pixels = -1;
  int64_t max_pixels = -1;
  int threads = 0;
};

const std::map<std::string, tensor::DType> kWeightTypes = {
    {"q8_0", tensor::DType::kQ8_0}, {"f16", tensor::DType::kF16}, {"f32", tensor::DType::kF32}};

vision::ExportOptions export_options(const TowerFlags& flags) {
  vision::ExportOptions options{.weights = kWeightTypes.at(flags.weights), .n_threads = flags.threads};
  if (flags.min_pixels >= 0) options.min_pixels = flags.min_pixels;
  if (flags.max_pixels >= 0) options.max_pixels = flags.max_pixels;
  if (!flags.model.empty()) {
    options.end_to_end = [&](vision::ImageEncoder& tower, vision::ImageEncoder& exact) {
      return ask_about_image(flags.model, flags.threads, tower, exact);
    };
  }
  return options;
}

Result<Json> run_export(const TowerFlags& flags) {
  T9_TRY(gates, vision::export_tower(flags.projector, flags.folder, export_options(flags)));
  return Json{{"tower", flags.folder}, {"gates", std::move(gates)}};
}

Result<Json> run_check(const TowerFlags& flags) {
  T9_TRY(gates, vision::check_tower(flags.folder, export_options(flags)));
  return Json{{"tower", flags.folder}, {"gates", std::move(gates)}};
}

void add_checks(CLI::App& command, TowerFlags& flags) {
  command.add_option("--model", flags.model, "Language model to ask about an image, as the last check");
  command.add_option("--threads,-t", flags.threads, "Threads of the checks (0: one per core)")
      ->check(CLI::Range(0, 1024));
}

// Prints the report of a command, or why there is none.
void on_run(CLI::App& command, int& exit_code, std::function<Result<Json>()> run) {
  command.callback([&exit_code, run = std::move(run)] {
    const auto report = run();
    if (!report) {
      fmt::print(stderr, "tempo9 tower: {}\n", sanitize_utf8(report.error().message()));
      exit_code = kExitFailure;
      return;
    }
    fmt::print("{}\n", report->dump(-1, ' ', false, Json::error_handler_t::replace));
  });
}

void add_export(CLI::App& tower, int& exit_code) {
  auto flags = std::make_shared<TowerFlags>();
  CLI::App* command = tower.add_subcommand("export", "Write a tower from a projector file, if it passes its checks");
  command->add_option("projector", flags->projector, "GGUF file of a projector (mmproj)")->required();
  command->add_option("--out", flags->folder, "Folder of the tower; must not exist")->required();
  command->add_option("--weights", flags->weights, "Type of the large matrices")
      ->check(CLI::IsMember(kWeightTypes))
      ->capture_default_str();
  command->add_option("--min-pixels", flags->min_pixels, "Smaller images are scaled up (default: the family's)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 28));
  command->add_option("--max-pixels", flags->max_pixels, "Larger images are scaled down (default: the largest bucket)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 28));
  add_checks(*command, *flags);
  on_run(*command, exit_code, [flags] { return run_export(*flags); });
}

void add_check(CLI::App& tower, int& exit_code) {
  auto flags = std::make_shared<TowerFlags>();
  CLI::App* command = tower.add_subcommand(
      "check", "Check a tower again as it runs here; on a Mac its Core ML packages, which are used from then on");
  command->add_option("tower", flags->folder, "Folder of the tower")->required();
  add_checks(*command, *flags);
  on_run(*command, exit_code, [flags] { return run_check(*flags); });
}

}  // namespace

void add_tower_command(CLI::App& app, int& exit_code) {
  CLI::App* tower = app.add_subcommand("tower", "Make the vision tower that --tower takes");
  tower->require_subcommand(1);
  add_export(*tower, exit_code);
  add_check(*tower, exit_code);
}

}  // namespace tempo9::cli
