// Prompts with images: their answers are the reference's, and who shares the batch, how prompts are cut, what is reused
// or restored, and speculation change no bit of them. An image never gets what was kept of another.
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "base/sha256.h"
#include "engine/engine.h"
#include "engine/prompt_images.h"
#include "engine/silent_tokenizer.h"
#include "kv/folder_support.h"
#include "support/data.h"

namespace tempo9::engine {
namespace {

struct Case {
  const char* model;
  const char* backend;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model << " on " << c.backend; }

struct Bits {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  friend bool operator==(const Bits&, const Bits&) = default;
};

struct Answer {
  Bits bits;
  Usage usage;
};

constexpr int32_t kPlaceholder = 500;
constexpr int32_t kBegin = 502;
constexpr int32_t kEnd = 503;

class ImageEngine : public ::testing::TestWithParam<Case> {
 protected:
  ImageEngine() { spdlog::set_level(spdlog::level::off); }

  void SetUp() override {
    auto file = gguf::File::open(testing::golden_path(GetParam().model) + "/model.gguf");
    ASSERT_TRUE(file) << file.error().message();
    auto model = models::load_model(std::shared_ptr<const gguf::File>(*std::move(file)));
    ASSERT_TRUE(model) << model.error().message();
    model_ = *std::move(model);
    const bool is_reference = std::string_view(GetParam().backend) == "reference";
    backend_ = is_reference ? backends::make_reference_backend()
                            : backends::make_cpu_backend({.n_threads = 2, .isa = {}}).value();
    tokenizer_ = std::make_unique<SilentTokenizer>(model_.info.n_vocab);
  }

  int64_t cols() const { return models::embedding_cols(model_.program); }

  std::unique_ptr<Engine> make_engine(EngineOptions options) {
    options.context_length = 512;
    options.kv_type = backend_->kv_types().front();
    auto engine = Engine::create(*backend_, model_, *tokenizer_, options);
    EXPECT_TRUE(engine) << engine.error().message();
    return *std::move(engine);
  }

  static Answer read(Stream& stream) {
    Answer answer;
    while (true) {
      const Event event = stream.wait();
      EXPECT_FALSE(event.error) << event.error->message();
      answer.bits.tokens.insert(answer.bits.tokens.end(), event.tokens.begin(), event.tokens.end());
      for (const TokenInfo& info : event.logprobs) answer.bits.logprobs.push_back(info.chosen.logprob);
      answer.usage = event.usage;
      if (event.finish || event.error) return answer;
    }
  }

  static std::vector<Answer> ask(Engine& engine, const std::vector<Request>& requests, bool together) {
    std::vector<std::shared_ptr<Stream>> streams;
    std::vector<Answer> answers;
    for (const Request& request : requests) {
      streams.push_back(engine.submit(request).value());
      if (!together) answers.push_back(read(*streams.back()));
    }
    if (together) {
      for (const auto& stream : streams) answers.push_back(read(*stream));
    }
    return answers;
  }

  static std::vector<Bits> bits_of(const std::vector<Answer>& answers) {
    std::vector<Bits> bits;
    for (const Answer& answer : answers) bits.push_back(answer.bits);
    return bits;
  }

  static void add_text(Request& request, int n_tokens, uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < n_tokens; ++i) request.prompt.push_back(static_cast<int32_t>(random() % 480));
  }

  // An image of made-up rows; equal seeds are the same image. Smaller where the model takes none as large.
  void add_image(Request& request, int32_t height, int32_t width, uint32_t seed) const {
    while (int64_t{height} * width > models::most_image_rows(model_)) --(height > width ? height : width);
    request.prompt.push_back(kBegin);
    PromptImage image{.begin = std::ssize(request.prompt), .height = height, .width = width};
    std::mt19937 random(seed);
    std::normal_distribution<float> value;
    std::vector<float> rows(static_cast<size_t>(height * width * cols()));
    for (float& x : rows) x = value(random);
    image.rows = std::make_shared<const std::vector<float>>(std::move(rows));
    image.digest = sha256_hex(std::to_string(seed));
    request.images.push_back(std::move(image));
    request.prompt.insert(request.prompt.end(), static_cast<size_t>(height * width), kPlaceholder);
    request.prompt.push_back(kEnd);
  }

  static Request greedy(int64_t max_tokens) {
    Request request;
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0.0f;
    request.logprobs = true;
    return request;
  }

  // One image in the middle, text before and after.
  Request looking(uint32_t image, int32_t height = 3, int32_t width = 4) const {
    Request request = greedy(12);
    add_text(request, 40, 1);
    add_image(request, height, width, image);
    add_text(request, 20, 2);
    return request;
  }

  std::vector<Request> many_requests() const {
    std::vector<Request> requests = {looking(7), looking(8), looking(9, 7, 11), looking(7), looking(10, 1, 70)};
    Request several = greedy(12);  // two images, of which one was seen before, at once and after text
    add_image(several, 4, 4, 11);
    add_image(several, 3, 4, 7);
    add_text(several, 33, 3);
    add_image(several, 2, 9, 12);
    add_text(several, 5, 4);
    requests.push_back(several);
    Request text = greedy(12);
    add_text(text, 90, 1);
    requests.push_back(text);
    Request later = looking(9, 7, 11);  // goes on with the conversation
    add_text(later, 30, 5);
    add_image(later, 2, 2, 13);
    add_text(later, 4, 6);
    requests.push_back(later);
    return requests;
  }

  models::Model model_;
  std::unique_ptr<backends::Backend> backend_;
  std::unique_ptr<SilentTokenizer> tokenizer_;
};

// Models whose recordings have all that their layers take of an image.
class GoldenImageEngine : public ImageEngine {};

TEST_P(GoldenImageEngine, FirstTokensAreThoseOfTheReference) {
  const std::string folder = testing::golden_path(GetParam().model);
  std::ifstream file(folder + "/expect.json");
  const auto json = nlohmann::json::parse(file);
  const std::vector<int32_t> tokens = json.at("tokens"), rows = json.at("rows"), argmax = json.at("argmax");
  std::ifstream values(folder + "/image_embeddings.f32", std::ios::binary);
  std::vector<float> embeddings(static_cast<size_t>(json.at("image_tokens").get<int64_t>() * cols()));
  values.read(reinterpret_cast<char*>(embeddings.data()),
              static_cast<std::streamsize>(embeddings.size() * sizeof(float)));
  ASSERT_TRUE(values.good());
  const int64_t begin = std::ranges::find(tokens, json.at("image_token_id").get<int32_t>()) - tokens.begin();
  const PromptImage image{.begin = begin,
                          .height = json.at("grid_h").get<int32_t>() / 2,  // in patches, of which 2 by 2 are a row
                          .width = json.at("grid_w").get<int32_t>() / 2,
                          .rows = std::make_shared<const std::vector<float>>(embeddings),
                          .digest = "golden"};
  std::vector<Request> requests;
  for (const int32_t row : rows) {
    Request request = greedy(1);
    request.prompt.assign(tokens.begin(), tokens.begin() + row + 1);
    if (row >= begin + 6) request.images = {image};
    if (row < begin || row >= begin + 6) requests.push_back(request);
  }
  const auto answers = ask(*make_engine({.max_batch = 8}), requests, /*together=*/true);
  for (size_t i = 0, r = 0; r < rows.size(); ++r) {
    if (rows[r] >= begin && rows[r] < begin + 6) continue;
    EXPECT_EQ(answers[i++].bits.tokens, std::vector<int32_t>{argmax[r]}) << "row " << rows[r];
  }
}

TEST_P(ImageEngine, TogetherInPiecesAndPausedAnswerAsEachAlone) {
  const std::vector<Request> requests = many_requests();
  const auto alone = bits_of(ask(*make_engine({.max_batch = 1, .kept_bytes = 0}), requests, /*together=*/false));
  EXPECT_NE(alone[0], alone[1]) << "the image makes a difference";
  EXPECT_EQ(bits_of(ask(*make_engine({.max_batch = 8}), requests, true)), alone);
  const int64_t few_rows = model_.info.sees_whole_images ? 8 + models::most_image_rows(model_) : 11;
  EXPECT_EQ(bits_of(ask(*make_engine({.max_batch = 8, .max_step_rows = few_rows}), requests, true)), alone);
  EXPECT_EQ(bits_of(ask(*make_engine({.max_batch = 8, .max_step_rows = 64, .kv_tokens = 512}), requests, true)), alone);
}

TEST_P(ImageEngine, WhatIsReusedChangesNothing) {
  const std::vector<Request> requests = many_requests();
  const auto alone = bits_of(ask(*make_engine({.max_batch = 1, .kept_bytes = 0}), requests, false));
  for (const bool together : {false, true}) {
    const auto warm = make_engine({.max_batch = 8, .kept_bytes = size_t{64} << 20});
    for (int round = 0; round < 2; ++round) {
      const auto again = ask(*warm, requests, together);
      int64_t n_reused = 0;
      for (const Answer& answer : again) n_reused += answer.usage.cached_tokens;
      EXPECT_GT(n_reused, round == 0 ? 32 : 300) << "together " << together;
      EXPECT_EQ(bits_of(again), alone) << "together " << together << " round " << round;
    }
  }
}

TEST_P(ImageEngine, WhatComesFromDiskChangesNothing) {
  const std::vector<Request> requests = many_requests();
  const auto alone = bits_of(ask(*make_engine({.max_batch = 1, .kept_bytes = 0}), requests, false));
  const kv::testing::TempFolder folder;
  const EngineOptions options{
      .max_batch = 8,
      .kept_bytes = size_t{64} << 20,
      .disk = {.root = folder.path(), .min_free_bytes = 0, .identity = "golden", .min_segment_bytes = 0}};
  EXPECT_EQ(bits_of(ask(*make_engine(options), requests, false)), alone);
  const auto after = make_engine(options);
  EXPECT_EQ(bits_of(ask(*after, requests, false)), alone);
  EXPECT_GE(after->stats().disk.restored_tokens, 64u);
  EXPECT_EQ(after->stats().disk.damaged, 0u);
}

TEST_P(ImageEngine, SpeculationChangesNothing) {
  std::vector<Request> requests = many_requests();
  for (Request& request : requests) request.max_tokens = 40;
  const auto plain = bits_of(ask(*make_engine({.max_batch = 1, .kept_bytes = 0}), requests, false));
  for (const bool together : {false, true}) {
    const auto engine = make_engine({.max_batch = 8, .speculation = {.max_depth = 3, .always = true}});
    EXPECT_EQ(bits_of(ask(*engine, requests, together)), plain) << "together " << together;
  }
}

// Field report H01: the same text and size, another picture.
TEST_P(ImageEngine, AnotherImageNeverHits) {
  const auto engine = make_engine({.max_batch = 4, .kept_bytes = size_t{64} << 20});
  const auto cold = [&](const Request& request) {
    return ask(*make_engine({.max_batch = 1, .kept_bytes = 0}), {request}, false).front();
  };
  for (uint32_t pair = 0; pair < 10; ++pair) {
    const Request red = looking(100 + 2 * pair, 9, 9), blue = looking(101 + 2 * pair, 9, 9);
    const auto answers = ask(*engine, {red, blue, red, blue}, false);
    EXPECT_NE(answers[0].bits, answers[1].bits);
    EXPECT_EQ(answers[1].bits, cold(blue).bits);
    EXPECT_LE(answers[1].usage.cached_tokens, 40) << "up to the image";
    EXPECT_EQ(answers[1].usage.uncached_because, "image");
    EXPECT_EQ(answers[2].bits, answers[0].bits);
    EXPECT_EQ(answers[3].bits, answers[1].bits);
    EXPECT_GT(answers[2].usage.cached_tokens, 64) << "its own image is a hit";
  }
}

TEST_P(ImageEngine, ImagesThatDoNotFitAreRefused) {
  const auto engine = make_engine({.max_batch = 1});
  const auto refused = [&](auto&& change) {
    Request request = looking(7);
    change(request);
    const auto stream = engine->submit(request);
    return !stream && stream.error().code() == ErrorCode::kInvalidInput;
  };
  EXPECT_TRUE(refused([](Request& r) { r.images[0].begin = -1; }));
  EXPECT_TRUE(refused([](Request& r) { r.images[0].begin = 70; }));
  EXPECT_TRUE(refused([](Request& r) { r.images[0].rows = nullptr; }));
  EXPECT_TRUE(refused([](Request& r) { r.images[0].height = 4; }));
  EXPECT_TRUE(refused([](Request& r) { r.images[0].width = -4; }));
  EXPECT_TRUE(refused([](Request& r) { r.images.push_back(r.images[0]); }));
  EXPECT_TRUE(refused([](Request& r) { r.prompt.resize(41 + 12); }));
  if (!model_.info.sees_whole_images) return;
  EXPECT_TRUE(refused([&](Request& r) {  // larger than the smallest window
    r.images[0].height = 1;
    r.images[0].width = 33;
    r.images[0].rows = std::make_shared<const std::vector<float>>(static_cast<size_t>(33 * cols()), 0.5f);
    add_text(r, 30, 3);
  }));
}

TEST(PromptImages, PositionsAreThoseOfTheSpec) {
  const auto rows = std::make_shared<const std::vector<float>>(6, 0.0f);
  const std::vector<PromptImage> images = {{.begin = 3, .height = 2, .width = 3, .rows = rows, .digest = "a"},
                                           {.begin = 11, .height = 6, .width = 1, .rows = rows, .digest = "b"}};
  ASSERT_TRUE(check_images(images, 18, {.embedding_cols = 1}).has_value());
  const PromptImages spatial(images, {.is_spatial = true});
  EXPECT_EQ(spatial.position_at(2), (RowPosition{2, 2, 2}));
  EXPECT_EQ(spatial.position_at(3), (RowPosition{3, 3, 3}));
  EXPECT_EQ(spatial.position_at(5), (RowPosition{3, 3, 5}));
  EXPECT_EQ(spatial.position_at(6), (RowPosition{3, 4, 3}));
  EXPECT_EQ(spatial.position_at(9), (RowPosition{6, 6, 6})) << "the larger side further";
  EXPECT_EQ(spatial.position_at(11), (RowPosition{8, 8, 8}));
  EXPECT_EQ(spatial.position_at(16), (RowPosition{8, 13, 8}));
  EXPECT_EQ(spatial.position_at(17), (RowPosition{14, 14, 14}));
  EXPECT_EQ(spatial.position_at(100), (RowPosition{97, 97, 97}));
  const PromptImages flat(images, {});
  EXPECT_EQ(flat.position_at(6), (RowPosition{6, 6, 6}));
  EXPECT_TRUE(flat.row_at(9).empty());
  EXPECT_EQ(flat.row_at(8).size(), 1u);
}

TEST(PromptImages, SomeModelsSeeThemWhole) {
  const auto rows = std::make_shared<const std::vector<float>>(6, 0.0f);
  const std::vector<PromptImage> images = {{.begin = 3, .height = 2, .width = 3, .rows = rows, .digest = "a"},
                                           {.begin = 9, .height = 6, .width = 1, .rows = rows, .digest = "b"}};
  const PromptImages causal(images, {});
  const PromptImages whole(images, {.sees_whole = true});
  EXPECT_TRUE(causal.whole().empty());
  ASSERT_EQ(whole.whole().size(), 2u);
  EXPECT_EQ(whole.whole()[1].begin, 9);
  EXPECT_EQ(whole.whole()[1].end, 15);
  const std::vector<int64_t> ends = {1, 2, 3, 9, 9, 9, 9, 9, 9, 15, 15, 15, 15, 15, 15, 16, 17};
  for (int64_t slot = 0; slot < std::ssize(ends); ++slot) {
    EXPECT_EQ(whole.visible_end(slot), ends[static_cast<size_t>(slot)]) << slot;
    EXPECT_EQ(causal.visible_end(slot), slot + 1) << slot;
  }
  EXPECT_TRUE(check_images(images, 16, {.embedding_cols = 1, .max_rows = 6}).has_value());
  const auto refused = check_images(images, 16, {.embedding_cols = 1, .max_rows = 5});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().message(), "an image of 6 rows: the model looks at an image as a whole, of 5 rows at most");
}

TEST(PromptImages, KeysTellImagesApart) {
  const auto rows = std::make_shared<const std::vector<float>>(6, 0.0f);
  const std::vector<int32_t> prompt(12, 5);
  const auto keys = [&](const std::string& digest) {
    return cache_keys(prompt,
                      std::vector<PromptImage>{{.begin = 4, .height = 2, .width = 3, .rows = rows, .digest = digest}});
  };
  const auto a = keys("a"), b = keys("b");
  EXPECT_EQ(a, keys("a"));
  for (size_t i = 0; i < a.size(); ++i) {
    const bool is_of_image = i >= 3 && i < 10;
    EXPECT_EQ(a[i] < 0, is_of_image) << i;
    EXPECT_EQ(a[i] == b[i], !is_of_image) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenImageEngine,
                         ::testing::Values(Case{"qwen2vl", "cpu"}, Case{"qwen35-vl", "cpu"},
                                           Case{"qwen2vl", "reference"}, Case{"qwen35-vl", "reference"}));
INSTANTIATE_TEST_SUITE_P(Models, ImageEngine,
                         ::testing::Values(Case{"qwen2vl", "cpu"}, Case{"qwen3vl", "cpu"}, Case{"qwen35-vl", "cpu"},
                                           Case{"qwen3vl", "reference"}, Case{"qwen35-vl", "reference"},
                                           Case{"gemma3", "cpu"}, Case{"gemma4", "cpu"}, Case{"gemma4-e", "cpu"},
                                           Case{"gemma4-moe", "cpu"}, Case{"gemma3", "reference"},
                                           Case{"gemma4", "reference"}));

}  // namespace
}  // namespace tempo9::engine
