// Towers that run as compiled networks: what a network is given, and what becomes of what it gives.
#include "vision/compiled_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tiny_projector.h"
#include "vision/buckets.h"
#include "vision/gates.h"
#include "vision/tower_encoder.h"

namespace tempo9::vision {
namespace {

// Small images stay small.
Projector tiny(const char* type) {
  auto projector = Projector::read(*gguf::File::parse(TinyProjector(type).bytes(), "tiny"));
  projector->spec.min_pixels = 0;
  return *std::move(projector);
}

Patches patches_of(const TowerSpec& spec, int32_t width, int32_t height, int64_t n_rows) {
  const Image image = make_sample_image(width, height, 2);
  return make_patches(spec, image, *scaled_size(spec, width, height), n_rows);
}

std::map<std::string, NamedArray> by_name(std::vector<NamedArray> arrays) {
  std::map<std::string, NamedArray> map;
  for (NamedArray& array : arrays) map[array.name] = std::move(array);
  return map;
}

TEST(NetworkInputs, AreThoseThatTheFamilyHasUseFor) {
  const std::map<std::string, std::vector<std::string>> kNames = {
      {"qwen3vl_merger", {"cosines", "mask", "pixels", "positions", "sines"}},
      {"qwen2vl_merger", {"cosines", "mask", "pixels", "sines"}},
      {"qwen2.5vl_merger", {"cosines", "mask", "pixels", "sines", "windows"}},
      {"gemma3", {"mask", "pixels", "positions"}},
      {"gemma4v", {"cosines", "mask", "pixels", "positions", "sines"}}};
  for (const auto& [type, names] : kNames) {
    const Projector projector = tiny(type.c_str());
    const Patches patches = patches_of(projector.spec, 40, 24, 4095);
    const auto arrays = by_name(network_inputs(projector.spec, patches));
    std::vector<std::string> got;
    for (const auto& [name, array] : arrays) {
      got.push_back(name);
      EXPECT_EQ(array.values.size(), static_cast<size_t>(array.shape[0] * array.shape[1])) << name;
      EXPECT_EQ(array.shape[0], name == "mask" ? 1 : 4095) << name;
      for (const float value : array.values) ASSERT_TRUE(std::isfinite(value)) << name;
    }
    EXPECT_EQ(got, names) << type;
  }
}

TEST(NetworkInputs, HidePaddingAndOtherWindows) {
  const Projector projector = tiny("qwen2.5vl_merger");
  const Patches patches = patches_of(projector.spec, 80, 48, 1024);
  ASSERT_LT(patches.n_real, 1024);
  ASSERT_GT(patches.windows.size(), 2U);
  const auto arrays = by_name(network_inputs(projector.spec, patches));
  for (int64_t key = 0; key < 1024; ++key) {
    EXPECT_EQ(arrays.at("mask").values[static_cast<size_t>(key)], key < patches.n_real ? 0.0f : kHidden);
  }
  for (const tensor::IndexRange window : patches.windows) {
    for (int64_t key = 0; key < 1024; ++key) {
      const bool is_inside = key >= window.begin && key < window.end;
      EXPECT_EQ(arrays.at("windows").values[static_cast<size_t>(window.begin * 1024 + key)],
                is_inside ? 0.0f : kHidden);
    }
  }
}

// Gives as many values as it is told.
class Counting final : public Network {
 public:
  Counting(size_t n_values, int& n_runs) : n_values_(n_values), n_runs_(n_runs) {}
  Result<std::vector<float>> run(std::span<const NamedArray>) override {
    ++n_runs_;
    return std::vector<float>(n_values_, 1.0f);
  }

 private:
  const size_t n_values_;
  int& n_runs_;
};

TEST(CompiledTowers, ArePaddedToTheirBucketAndWatched) {
  int n_small = 0, n_large = 0;
  const auto make = [&](size_t n_small_values) {
    Projector projector = tiny("qwen2vl_merger");
    std::vector<Bucket> buckets = *make_buckets(projector.spec);
    limit_to_buckets(buckets, projector.spec);
    std::vector<BucketNetwork> networks;
    networks.push_back({.n_patches = 1024, .network = std::make_unique<Counting>(n_small_values, n_small)});
    networks.push_back({.n_patches = 4096, .network = std::make_unique<Counting>(size_t{1024} * 32, n_large)});
    return make_encoder(make_compiled_executor(std::move(projector), std::move(networks), {.executor = "compiled"}),
                        std::move(buckets), "tower");
  };
  const auto tower = make(size_t{256} * 32);
  const auto small = tower->encode(make_sample_image(40, 24, 1), {});
  ASSERT_TRUE(small.has_value()) << small.error().message();
  EXPECT_EQ(small->rows.size(), static_cast<size_t>(small->grid.n_tokens()) * 32);
  EXPECT_TRUE(tower->encode(make_sample_image(240, 250, 1), {}).has_value());
  EXPECT_EQ(n_small, 1);
  EXPECT_EQ(n_large, 1);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(tower->encode(make_sample_image(40, 24, 1), stopped.get_token()).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(n_small, 1);
  const auto wrong = make(7)->encode(make_sample_image(40, 24, 1), {});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message().find("compiled gave 7 values"), std::string::npos) << wrong.error().message();
}

}  // namespace
}  // namespace tempo9::vision
