// tower_bench make OUT.gguf: a projector of the shape of Qwen3-VL-2B's with random weights, for `tempo9 tower export`.
// tower_bench run DIR [-t N] [-n N] [--size WIDTHxHEIGHT …]: how long a tower takes for images of these sizes, or for
// one that fills each bucket, and how soon it stops.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "kernels/kernels.h"
#include "vision/gates.h"
#include "vision/tiny_projector.h"
#include "vision/tower.h"
#include "vision/tower_folder.h"

namespace {

using namespace tempo9;
using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int report(const Error& error) {
  fmt::print(stderr, "tower_bench: {}\n", error.message());
  return 1;
}

int make(const std::string& path) {
  const vision::TinyProjector projector("qwen3vl_merger", {.width = 1024,
                                                           .ffn = 4096,
                                                           .blocks = 24,
                                                           .heads = 16,
                                                           .out = 2048,
                                                           .patch = 16,
                                                           .side = 48,
                                                           .deepstack = {5, 11, 17}});
  const auto written = projector.write(path);
  return written ? 0 : report(written.error());
}

// Time from asking it to stop, in the middle of an image, until it has.
double time_to_stop(vision::ImageEncoder& tower, const vision::Image& image, double image_ms) {
  std::stop_source source;
  Clock::time_point asked;
  std::jthread asker([&] {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(image_ms / 2));
    asked = Clock::now();
    source.request_stop();
  });
  const auto result = tower.encode(image, source.get_token());
  const double ms = ms_since(asked);
  return result ? -1.0 : ms;
}

struct Size {
  int32_t width = 0;
  int32_t height = 0;
};

// Those that are asked for, "640x480", or those that fill the tower's buckets.
std::vector<Size> sizes_of(const std::vector<std::string>& asked, const vision::TowerMeta& meta) {
  std::vector<Size> sizes;
  for (const std::string& text : asked) {
    sizes.push_back({std::atoi(text.c_str()), std::atoi(text.c_str() + text.find('x') + 1)});
  }
  if (!sizes.empty()) return sizes;
  for (const vision::Bucket& bucket : meta.buckets) {
    const auto side = static_cast<int32_t>(std::sqrt(static_cast<double>(bucket.n_pixels)));
    sizes.push_back({side, side});
  }
  return sizes;
}

int run(const std::string& folder, int n_threads, int n_runs, const std::vector<std::string>& asked) {
  const auto meta = vision::read_meta(folder);
  if (!meta) return report(meta.error());
  const auto tower = vision::Tower::open(folder, {.n_threads = n_threads});
  if (!tower) return report(tower.error());
  fmt::print("isa {}, threads {}, weights {}\n", kernels::best_isa().name, n_threads, meta->weights_type);
  for (const Size size : sizes_of(asked, *meta)) {
    const auto grid = (*tower)->grid_of(size.width, size.height);
    if (!grid) return report(grid.error());
    const vision::Image image = vision::make_sample_image(size.width, size.height, 1);
    std::vector<double> times;
    for (int i = 0; i < n_runs; ++i) {
      const auto begin = Clock::now();
      const auto rows = (*tower)->encode(image, {});
      if (!rows) return report(rows.error());
      times.push_back(ms_since(begin));
    }
    std::ranges::sort(times);
    fmt::print("{} x {} pixels, {} tokens: median {:.0f} ms ({:.0f} to {:.0f}) of {}; stops after {:.1f} ms\n",
               size.width, size.height, grid->n_tokens(), times[times.size() / 2], times.front(), times.back(), n_runs,
               time_to_stop(**tower, image, times.front()));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Vision towers: time per image");
  std::string path, folder;
  std::vector<std::string> sizes;
  int n_threads = 1, n_runs = 3;
  app.require_subcommand(1);
  app.add_subcommand("make", "Write a projector with random weights")->add_option("path", path)->required();
  CLI::App* runs = app.add_subcommand("run", "Time a tower");
  runs->add_option("folder", folder)->required();
  runs->add_option("-t", n_threads)->check(CLI::Range(1, 64))->capture_default_str();
  runs->add_option("-n", n_runs)->check(CLI::Range(1, 100))->capture_default_str();
  runs->add_option("--size", sizes, "WIDTHxHEIGHT")->check([](const std::string& text) {
    int32_t width = 0, height = 0, end = 0;
    const bool is_size = std::sscanf(text.c_str(), "%dx%d%n", &width, &height, &end) == 2 && text[end] == 0;
    return is_size && std::min(width, height) > 0 && std::max(width, height) < 1 << 15 ? "" : "WIDTHxHEIGHT, of pixels";
  });
  CLI11_PARSE(app, argc, argv);
  return runs->parsed() ? run(folder, n_threads, n_runs, sizes) : make(path);
}
