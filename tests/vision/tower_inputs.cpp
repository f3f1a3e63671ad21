// tower_inputs make TYPE OUT.gguf: a small made-up projector of a family.
// tower_inputs look DIR WIDTH HEIGHT OUT, tower_inputs look DIR FILE OUT: what a network compiled for an image's bucket
// is given (network_inputs.h), for a made-up image or a file, and what exact floats make of it. OUT/tower.json says the
// bucket and the arrays, which are OUT/NAME.f32; "expected" has one row per token of the bucket, in the patches' order.
// For test_tower_coreml.py.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tiny_projector.h"
#include "vision/buckets.h"
#include "vision/decode/decode.h"
#include "vision/executor.h"
#include "vision/gates.h"
#include "vision/network_inputs.h"
#include "vision/tower_folder.h"

namespace {

using namespace tempo9;
namespace fs = std::filesystem;

Result<vision::Image> read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return vision::decode_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

void write_array(const fs::path& folder, const vision::NamedArray& array, nlohmann::json& arrays) {
  std::ofstream(folder / (array.name + ".f32"), std::ios::binary)
      .write(reinterpret_cast<const char*>(array.values.data()),
             static_cast<std::streamsize>(array.values.size() * sizeof(float)));
  arrays[array.name] = array.shape;
}

Result<void> look(const std::string& tower, const vision::Image& image, const fs::path& folder) {
  T9_TRY(meta, vision::read_meta(tower));
  T9_TRY(projector, vision::Projector::open((fs::path(tower) / vision::kWeightsFile).string()));
  projector.spec.min_pixels = meta.min_pixels;
  projector.spec.max_pixels = meta.max_pixels;
  T9_TRY(size, vision::scaled_size(projector.spec, image.width, image.height));
  const vision::TokenGrid grid = vision::token_grid(projector.spec, size);
  const int64_t merge = projector.spec.merge;
  const vision::Bucket* bucket = vision::find_bucket(meta.buckets, grid.n_tokens() * merge * merge);
  if (bucket == nullptr) return fail(ErrorCode::kInvalidInput, "no bucket");
  const vision::Patches patches = vision::make_patches(projector.spec, image, size, bucket->n_patches);
  nlohmann::json json = {{"bucket", bucket->name}, {"cells", patches.cells}, {"arrays", nlohmann::json::object()}};
  for (const vision::NamedArray& input : vision::network_inputs(projector.spec, patches)) {
    write_array(folder, input, json["arrays"]);
  }
  const int64_t cols = projector.spec.embedding_cols();
  T9_TRY(executor, vision::make_cpu_executor(std::move(projector), {.n_threads = 2, .is_exact = true}));
  T9_TRY(rows, executor->run(patches, {}));
  write_array(folder, {.name = "expected", .shape = {bucket->n_tokens, cols}, .values = std::move(rows)},
              json["arrays"]);
  std::ofstream(folder / "tower.json") << json.dump();
  return {};
}

Result<void> run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "make") return vision::TinyProjector(words[1]).write(words[2]);
  if (words.size() == 5 && words[0] == "look") {
    return look(words[1], vision::make_sample_image(std::stoi(words[2]), std::stoi(words[3]), 3), words[4]);
  }
  if (words.size() != 4 || words[0] != "look") return fail(ErrorCode::kInvalidInput, "see the top of the source");
  T9_TRY(image, read_image(words[2]));
  return look(words[1], image, words[3]);
}

}  // namespace

int main(int argc, char** argv) {
  const auto result = run({argv + 1, argv + argc});
  if (result) return 0;
  fmt::print(stderr, "tower_inputs: {}\n", result.error().message());
  return 1;
}
