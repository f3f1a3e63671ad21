// The golden models under tests/goldens (README.md there).
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "models/model.h"
#include "support/data.h"

namespace tempo9 {

struct Golden {
  std::string name;  // "gemma3", "quant/Q4_K_M"
  std::filesystem::path folder;

  std::string gguf() const { return folder / "model.gguf"; }
  // "quant/Q4_K_M" as part of a test's name: letters, digits and underscores.
  std::string test_name() const {
    std::string text = name;
    for (char& c : text) {
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    }
    return text;
  }
};

inline std::vector<Golden> goldens_in(const std::string& under) {
  const std::filesystem::path root = testing::golden_path("");
  std::vector<Golden> goldens;
  for (const auto& entry : std::filesystem::directory_iterator(root / under)) {
    if (!std::filesystem::exists(entry.path() / "model.gguf")) continue;
    goldens.push_back({.name = entry.path().lexically_relative(root).string(), .folder = entry.path()});
  }
  std::sort(goldens.begin(), goldens.end(), [](const Golden& a, const Golden& b) { return a.name < b.name; });
  return goldens;
}

inline std::vector<Golden> all_goldens() {
  std::vector<Golden> goldens = goldens_in("");
  for (Golden& golden : goldens_in("quant")) goldens.push_back(std::move(golden));
  return goldens;
}

// Printed by GoogleTest for parameters.
inline void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

struct Expected {
  std::vector<int32_t> tokens;
  std::vector<int32_t> rows;
  std::vector<float> logits;
};

inline std::vector<float> read_logits(const Golden& golden, const std::string& name, size_t n_values) {
  std::vector<float> values(n_values);
  std::ifstream file(golden.folder / name, std::ios::binary);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(n_values * sizeof(float)));
  if (!file) throw std::runtime_error(golden.name + ": " + name + " is too short");
  return values;
}

// Where the recorded tokens hold an image, only what comes before it: what text alone can give.
inline Expected read_expected(const Golden& golden) {
  const auto json = nlohmann::json::parse(std::ifstream(golden.folder / "expect.json"));
  Expected expected{.tokens = json.at("tokens"), .rows = json.at("rows"), .logits = {}};
  expected.logits = read_logits(golden, "logits.f32", expected.rows.size() * json.at("vocab").get<size_t>());
  if (json.contains("image_token_id")) {
    const auto image = std::find(expected.tokens.begin(), expected.tokens.end(), json["image_token_id"].get<int32_t>());
    expected.tokens.erase(image, expected.tokens.end());
    std::erase_if(expected.rows, [&](int32_t row) { return row >= std::ssize(expected.tokens); });
    expected.logits.resize(expected.rows.size() * json.at("vocab").get<size_t>());
  }
  return expected;
}

// All of a recording with an image whose embeddings are there; no rows for others.
struct ExpectedImage {
  Expected expected;
  int32_t token = 0;
  int64_t height = 0, width = 0;  // in tokens
  std::vector<float> embeddings;
};

inline ExpectedImage read_expected_image(const Golden& golden) {
  const auto json = nlohmann::json::parse(std::ifstream(golden.folder / "expect.json"));
  if (!json.contains("image_tokens") || !std::filesystem::exists(golden.folder / "image_embeddings.f32")) return {};
  const size_t n_rows = json.at("image_tokens"), n_cols = json.at("embedding_width");
  ExpectedImage image{.expected = {.tokens = json.at("tokens"), .rows = json.at("rows"), .logits = {}},
                      .token = json.at("image_token_id"),
                      .height = json.at("grid_h"),
                      .width = json.at("grid_w"),
                      .embeddings = read_logits(golden, "image_embeddings.f32", n_rows * n_cols)};
  image.expected.logits =
      read_logits(golden, "logits.f32", image.expected.rows.size() * json.at("vocab").get<size_t>());
  // The grid counts patches, of which one token covers a square.
  while (image.height * image.width > static_cast<int64_t>(n_rows)) {
    image.height /= 2;
    image.width /= 2;
  }
  return image;
}

// What the model's draft block predicts; no rows for models without one.
inline Expected read_expected_drafts(const Golden& golden) {
  const auto json = nlohmann::json::parse(std::ifstream(golden.folder / "expect.json"));
  if (!json.contains("mtp_rows")) return {};
  Expected expected{.tokens = json.at("tokens"), .rows = json.at("mtp_rows"), .logits = {}};
  expected.logits = read_logits(golden, "mtp_logits.f32", expected.rows.size() * json.at("vocab").get<size_t>());
  return expected;
}

inline Result<models::Model> load_golden(const Golden& golden) {
  T9_TRY(file, gguf::File::open(golden.gguf()));
  return models::load_model(std::move(file));
}

}  // namespace tempo9
