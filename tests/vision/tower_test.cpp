// Towers as folders: export with its gates, opening, and what is refused; images of all sizes through the buckets.
#include "vision/tower.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/data.h"
#include "tiny_projector.h"
#include "vision/buckets.h"
#include "vision/coreml.h"
#include "vision/export.h"
#include "vision/gates.h"
#include "vision/tower_encoder.h"
#include "vision/tower_folder.h"

namespace tempo9::vision {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class Towers : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("tempo9-towers-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ / name; }

  // A projector and its tower, "tower".
  Json make_tower(const std::string& type = "qwen3vl_merger", const ExportOptions& options = {}) {
    EXPECT_TRUE(TinyProjector(type).write(path("mmproj.gguf")));
    auto gates = export_tower(path("mmproj.gguf"), path("tower"), options);
    EXPECT_TRUE(gates.has_value()) << (gates ? "" : gates.error().message());
    return gates.value_or(Json());
  }

  static void expect_refused(const std::string& tower, const std::string& text, ErrorCode code) {
    const auto encoder = Tower::open(tower);
    ASSERT_FALSE(encoder.has_value()) << text;
    EXPECT_EQ(encoder.error().code(), code);
    EXPECT_NE(encoder.error().message().find(text), std::string::npos) << encoder.error().message();
  }

  Json meta() const { return Json::parse(std::ifstream(path("tower/tower_meta.json"))); }
  void write_meta(const Json& json) const { std::ofstream(path("tower/tower_meta.json")) << json.dump(); }

  fs::path folder_;
};

// Budgets of other families need images that are slow in a debug build.
TEST_F(Towers, PassTheirGatesAndOpen) {
  for (const char* type : {"qwen3vl_merger", "qwen2vl_merger", "qwen2.5vl_merger", "gemma3"}) {
    fs::remove_all(path("tower"));
    const Json gates = make_tower(
        type, {.max_pixels = std::string_view(type) == "gemma3" ? std::nullopt : std::optional<int64_t>(16384)});
    EXPECT_EQ(gates["residency"]["executor"], "cpu");
    EXPECT_EQ(gates["residency"]["fallback_layers"], 0);
    for (const Json& bucket : gates["buckets"]) EXPECT_GE(bucket["min_cosine"], 0.98) << type << bucket;
    EXPECT_EQ(meta()["gates"], gates);
    EXPECT_FALSE(fs::exists(path("tower.partial")));
    const auto encoder = Tower::open(path("tower"), {.n_threads = 1});
    ASSERT_TRUE(encoder.has_value()) << encoder.error().message();
    const auto rows = (*encoder)->encode(make_sample_image(40, 24, 1), {});
    ASSERT_TRUE(rows.has_value()) << rows.error().message();
    const auto grid = (*encoder)->grid_of(40, 24);
    ASSERT_TRUE(grid.has_value());
    EXPECT_EQ(rows->grid.height, grid->height);
    EXPECT_EQ(rows->grid.width, grid->width);
    EXPECT_EQ(std::ssize(rows->rows), grid->n_tokens() * (*encoder)->embedding_cols());
  }
}

TEST_F(Towers, GiveEqualRowsForEqualIdentities) {
  make_tower("qwen3vl_merger", {.max_pixels = 4096});
  const auto one = Tower::open(path("tower"), {.n_threads = 1});
  const auto two = Tower::open(path("tower"), {.n_threads = 2});
  const auto other = Tower::open(path("tower"), {.n_threads = 1, .min_pixels = 0});
  ASSERT_TRUE(one && two && other);
  EXPECT_EQ((*one)->identity(), (*two)->identity());
  EXPECT_NE((*one)->identity(), (*other)->identity());
  const Image image = make_sample_image(12, 20, 4);
  EXPECT_EQ((*one)->encode(image, {})->rows, (*two)->encode(image, {})->rows);
  EXPECT_NE((*one)->encode(image, {})->rows.size(), (*other)->encode(image, {})->rows.size());
}

TEST_F(Towers, SayWhatIsMissing) {
  make_tower("qwen2vl_merger", {.max_pixels = 4096});
  expect_refused(path("nothing"), "no such folder", ErrorCode::kNotFound);
  expect_refused(path("mmproj.gguf"), "GGUF file", ErrorCode::kNotFound);
  expect_refused(folder_.string(), "no tower_meta.json in it; did you mean " + path("tower") + "?",
                 ErrorCode::kNotFound);
  std::ofstream(path("text")) << "text";
  expect_refused(path("text"), "a tower is a folder", ErrorCode::kNotFound);
  fs::remove(path("tower/weights.gguf"));
  expect_refused(path("tower"), "weights.gguf is missing", ErrorCode::kNotFound);
}

TEST_F(Towers, OfOtherVersionsAndDamagedOnesAreRefused) {
  make_tower("qwen2vl_merger", {.max_pixels = 4096});
  const Json good = meta();
  const auto refuse = [&](const char* key, const Json& value, const std::string& text, ErrorCode code) {
    Json changed = good;
    changed[key] = value;
    write_meta(changed);
    expect_refused(path("tower"), text, code);
  };
  refuse("version", 2, "version 2 is not version 1", ErrorCode::kUnsupported);
  refuse("format", "other", "format is \"other\"", ErrorCode::kInvalidInput);
  refuse("weights_bytes", 77, "says 77", ErrorCode::kInvalidInput);
  refuse("weights_digest", "00", "not the file", ErrorCode::kInvalidInput);
  refuse("embedding_cols", 77, "rows of 77", ErrorCode::kInvalidInput);
  refuse("projector_type", "gemma3", "says gemma3", ErrorCode::kInvalidInput);
  refuse("max_pixels", 1, "no range for tokens", ErrorCode::kInvalidInput);
  refuse("buckets", Json::array(), "buckets", ErrorCode::kInvalidInput);
  refuse("buckets", Json::array({1}), "buckets[0]", ErrorCode::kInvalidInput);
  for (const auto& [key, value] : good.items()) {
    if (key == "gates") continue;
    Json changed = good;
    changed.erase(key);
    write_meta(changed);
    expect_refused(path("tower"), key, ErrorCode::kInvalidInput);
    refuse(key.c_str(), nullptr, key, ErrorCode::kInvalidInput);
  }
  std::ofstream(path("tower/tower_meta.json")) << "{";
  expect_refused(path("tower"), "not JSON", ErrorCode::kInvalidInput);
  write_meta(good);
  EXPECT_TRUE(Tower::open(path("tower")));
  std::fstream weights(path("tower/weights.gguf"), std::ios::binary | std::ios::in | std::ios::out);
  weights.seekp(-5, std::ios::end);
  weights.put(77);
  weights.close();
  expect_refused(path("tower"), "digest", ErrorCode::kInvalidInput);
}

// Packages for Core ML change nothing where there is none, and must be the tower's own.
TEST_F(Towers, WithPackagesForAMacAreTowersStill) {
  make_tower("qwen2vl_merger", {.max_pixels = 4096});
  const auto plain = Tower::open(path("tower"), {.n_threads = 1});
  ASSERT_TRUE(plain);
  fs::create_directories(path("tower/b1024.mlpackage"));
  Json with = meta();
  with["buckets"][0]["coreml"] = "b1024.mlpackage";
  with["coreml"] = {{"weights_digest", with["weights_digest"]}, {"gates", Json::object()}};
  write_meta(with);
  EXPECT_TRUE(read_meta(path("tower"))->has_checked_coreml);
  if (!has_coreml()) {
    const auto tower = Tower::open(path("tower"), {.n_threads = 1});
    ASSERT_TRUE(tower) << tower.error().message();
    EXPECT_EQ((*tower)->identity(), (*plain)->identity());
    EXPECT_TRUE((*tower)->description().starts_with("cpu: ")) << (*tower)->description();
    const auto gates = check_tower(path("tower"), {.n_threads = 1});
    ASSERT_TRUE(gates.has_value()) << gates.error().message();
    EXPECT_EQ((*gates)["residency"]["executor"], "cpu");
    EXPECT_EQ(meta(), with) << "only a Mac adds its report";
  }
  ASSERT_TRUE(keep_coreml_gates(path("tower"), {{"kept", 1}}).has_value());
  EXPECT_EQ(meta()["coreml"]["gates"]["kept"], 1);
  const auto refuse = [&](const char* key, const char* value, const std::string& text, ErrorCode code) {
    Json changed = with;
    (std::string_view(key) == "coreml" ? changed["buckets"][0] : changed["coreml"])[key] = value;
    write_meta(changed);
    expect_refused(path("tower"), text, code);
  };
  refuse("weights_digest", "00", "made for other weights", ErrorCode::kInvalidInput);
  refuse("coreml", "../tower/b1024.mlpackage", "no package's name", ErrorCode::kInvalidInput);
  refuse("coreml", "weights.gguf", "no package's name", ErrorCode::kInvalidInput);
  refuse("coreml", "lost.mlpackage", "lost.mlpackage is missing", ErrorCode::kNotFound);
  Json unchecked = with;
  unchecked["coreml"].erase("gates");
  write_meta(unchecked);
  EXPECT_FALSE(read_meta(path("tower"))->has_checked_coreml);
}

TEST_F(Towers, ThatFailAreNotWritten) {
  ASSERT_TRUE(TinyProjector("qwen2vl_merger").write(path("mmproj.gguf")));
  const auto refused = export_tower(path("mmproj.gguf"), path("tower"),
                                    {.max_pixels = 4096, .end_to_end = [](auto&, auto&) -> Result<Json> {
                                       return fail(ErrorCode::kInvalidInput, "the answer is wrong");
                                     }});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("the answer is wrong"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("tower")));
  EXPECT_FALSE(fs::exists(path("tower.partial")));
  // Nor over something that is there.
  fs::create_directories(path("taken"));
  std::ofstream(path("taken/file")) << "mine";
  EXPECT_FALSE(export_tower(path("mmproj.gguf"), path("taken"), {}).has_value());
  EXPECT_TRUE(fs::exists(path("taken/file")));
  EXPECT_FALSE(export_tower(testing::golden_path("qwen2/model.gguf"), path("tower"), {}).has_value());
  EXPECT_FALSE(fs::exists(path("tower")));
}

// An encoder that gives the rows of another with an error of its own.
class Wrong final : public ImageEncoder {
 public:
  explicit Wrong(ImageEncoder& right) : right_(right) {}
  Result<TokenGrid> grid_of(int32_t width, int32_t height) const override { return right_.grid_of(width, height); }
  int64_t embedding_cols() const override { return right_.embedding_cols(); }
  const std::string& identity() const override { return right_.identity(); }
  Result<ImageEmbeddings> encode(const Image& image, std::stop_token stop) override {
    auto rows = right_.encode(image, std::move(stop));
    // The last row alone.
    for (size_t i = rows->rows.size() - static_cast<size_t>(embedding_cols()); i < rows->rows.size(); ++i) {
      rows->rows[i] = -rows->rows[i];
    }
    return rows;
  }

 private:
  ImageEncoder& right_;
};

std::unique_ptr<ImageEncoder> exact_encoder(const std::vector<std::byte>& bytes, int64_t min_pixels, int64_t max_pixels,
                                            bool pads) {
  auto projector = Projector::read(*gguf::File::parse(bytes, "tiny.gguf"));
  projector->spec.min_pixels = min_pixels;
  projector->spec.max_pixels = max_pixels;
  const auto buckets = make_buckets(projector->spec);
  limit_to_buckets(*buckets, projector->spec);
  auto executor = make_cpu_executor(*std::move(projector), {.n_threads = 2, .is_exact = true});
  return make_encoder(*std::move(executor), *buckets, "exact", pads);
}

TEST(Gates, OneWrongRowIsSeen) {
  const std::vector<std::byte> bytes = TinyProjector("qwen2vl_merger").bytes();
  const auto exact = exact_encoder(bytes, 0, 1 << 14, false);
  Wrong wrong(*exact);
  const auto projector = Projector::read(*gguf::File::parse(bytes, "tiny.gguf"));
  std::vector<Bucket> buckets = *make_buckets(projector->spec);
  buckets.resize(1);
  EXPECT_TRUE(check_buckets(*exact, *exact, projector->spec, buckets).has_value());
  const auto result = check_buckets(wrong, *exact, projector->spec, buckets);
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message().find("bucket b1024"), std::string::npos) << result.error().message();
  EXPECT_FALSE(check_residency({.executor = "cpu", .detail = "", .n_native = 5, .n_fallback = 1}).has_value());
}

TEST(Buckets, HoldTheImagesOfTheirFamilies) {
  TowerSpec spec{.resize = ResizeRule::kSmart, .patch = 16, .merge = 2, .max_pixels = 1 << 28};
  const auto smart = make_buckets(spec);
  ASSERT_TRUE(smart && smart->size() == 2);
  EXPECT_EQ((*smart)[0].name, "b1024");
  EXPECT_EQ((*smart)[0].n_tokens, 256);
  EXPECT_EQ((*smart)[0].n_pixels, 262144);
  EXPECT_EQ((*smart)[1].n_tokens, 1024);
  EXPECT_EQ((*smart)[1].n_pixels, 1048576);
  limit_to_buckets(*smart, spec);
  EXPECT_EQ(spec.max_pixels, 1048576);
  const auto stretch = make_buckets({.resize = ResizeRule::kStretch, .patch = 14, .merge = 4, .side = 64});
  ASSERT_TRUE(stretch && stretch->size() == 1);
  EXPECT_EQ(stretch->front().n_patches, 4096);
  EXPECT_EQ(stretch->front().n_tokens, 256);
  EXPECT_FALSE(make_buckets({.resize = ResizeRule::kStretch, .patch = 14, .merge = 4, .side = 80}));
  EXPECT_TRUE(make_buckets({.resize = ResizeRule::kBudget, .patch = 16, .merge = 3, .max_tokens = 280}));
}

// Sizes and shapes of all kinds give, padded to their bucket, the rows that they give alone, or the same refusal.
TEST(Buckets, ChangeNoRows) {
  constexpr std::pair<int32_t, int32_t> kImageSizes[] = {
      {1, 1},    {10000, 3}, {128, 128}, {256, 256}, {256, 64}, {64, 256}, {100, 100}, {33, 77},  {200, 1}, {1, 200},
      {640, 48}, {48, 640},  {7, 5},     {300, 200}, {8, 8},    {16, 8},   {129, 127}, {1000, 9}, {17, 90}, {201, 1}};
  const std::vector<std::byte> bytes =
      TinyProjector("qwen3vl_merger", {.width = 16, .ffn = 16, .blocks = 2, .heads = 1, .out = 16}).bytes();
  // 4 pixels a patch: an eighth of the usual sizes fills the buckets of 128 x 128 and 256 x 256 pixels.
  const auto alone = exact_encoder(bytes, 4096, 1 << 16, false);
  const auto padded = exact_encoder(bytes, 4096, 1 << 16, true);
  int n_refused = 0;
  for (const auto& [width, height] : kImageSizes) {
    const Image image = make_sample_image(width, height, 5);
    const auto expected = alone->encode(image, {});
    const auto rows = padded->encode(image, {});
    ASSERT_EQ(rows.has_value(), expected.has_value());
    if (!rows) {
      EXPECT_EQ(rows.error().message(), expected.error().message());
      ++n_refused;
      continue;
    }
    EXPECT_EQ(rows->grid.width, expected->grid.width);
    EXPECT_EQ(rows->grid.height, expected->grid.height);
    EXPECT_GE(least_cosine(rows->rows, expected->rows, 16), 0.999999) << width << " x " << height;
  }
  EXPECT_EQ(n_refused, 2);  // more than 200 times as wide as high
}

}  // namespace
}  // namespace tempo9::vision
