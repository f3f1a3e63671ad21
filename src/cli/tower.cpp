// `tempo9 tower export`: a vision tower from a projector file, with its gates.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
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

struct Flags {
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

Result<Json> run_export(const Flags& flags) {
  vision::ExportOptions options{.weights = kWeightTypes.at(flags.weights), .n_threads = flags.threads};
  if (flags.min_pixels >= 0) options.min_pixels = flags.min_pixels;
  if (flags.max_pixels >= 0) options.max_pixels = flags.max_pixels;
  if (!flags.model.empty()) {
    options.end_to_end = [&](vision::ImageEncoder& tower, vision::ImageEncoder& exact) {
      return ask_about_image(flags.model, flags.threads, tower, exact);
    };
  }
  T9_TRY(gates, vision::export_tower(flags.projector, flags.folder, options));
  return Json{{"tower", flags.folder}, {"gates", std::move(gates)}};
}

}  // namespace

void add_tower_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* tower = app.add_subcommand("tower", "Make the vision tower that --tower takes");
  tower->require_subcommand(1);
  CLI::App* command = tower->add_subcommand("export", "Write a tower from a projector file, if it passes its checks");
  command->add_option("projector", flags->projector, "GGUF file of a projector (mmproj)")->required();
  command->add_option("--out", flags->folder, "Folder of the tower; must not exist")->required();
  command->add_option("--model", flags->model, "Language model to ask about an image, as the last check");
  command->add_option("--weights", flags->weights, "Type of the large matrices")
      ->check(CLI::IsMember(kWeightTypes))
      ->capture_default_str();
  command->add_option("--min-pixels", flags->min_pixels, "Smaller images are scaled up (default: the family's)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 28));
  command->add_option("--max-pixels", flags->max_pixels, "Larger images are scaled down (default: the largest bucket)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 28));
  command->add_option("--threads,-t", flags->threads, "Threads of the checks (0: one per core)")
      ->check(CLI::Range(0, 1024));
  command->callback([=, &exit_code] {
    const auto report = run_export(*flags);
    if (!report) {
      fmt::print(stderr, "tempo9 tower: {}\n", sanitize_utf8(report.error().message()));
      exit_code = kExitFailure;
      return;
    }
    fmt::print("{}\n", report->dump(-1, ' ', false, Json::error_handler_t::replace));
  });
}

}  // namespace tempo9::cli
