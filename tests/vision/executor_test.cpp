// The kernels' pass against plain loops, for every family; threads, padding, stopping.
#include "vision/executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "kernels/kernels.h"
#include "tiny_projector.h"
#include "vision/gates.h"

namespace tempo9::vision {
namespace {

Projector parse(const std::vector<std::byte>& bytes) {
  auto file = gguf::File::parse(bytes, "tiny.gguf");
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message());
  auto projector = Projector::read(*std::move(file));
  EXPECT_TRUE(projector.has_value()) << (projector ? "" : projector.error().message());
  projector->spec.min_pixels = 0;
  return *std::move(projector);
}

std::unique_ptr<Executor> cpu(Projector projector, const CpuExecutorOptions& options) {
  auto executor = make_cpu_executor(std::move(projector), options);
  EXPECT_TRUE(executor.has_value()) << (executor ? "" : executor.error().message());
  return *std::move(executor);
}

Patches sample(const TowerSpec& spec, int32_t width, int32_t height, int64_t n_rows = 0) {
  const auto size = scaled_size(spec, width, height);
  EXPECT_TRUE(size.has_value());
  return make_patches(spec, make_sample_image(width, height, 3), *size, n_rows);
}

std::vector<float> run(Executor& executor, const Patches& patches) {
  auto rows = executor.run(patches, {});
  EXPECT_TRUE(rows.has_value()) << (rows ? "" : rows.error().message());
  return *std::move(rows);
}

double relative_rms(std::span<const float> a, std::span<const float> reference) {
  double error = 0.0, total = 0.0;
  for (size_t i = 0; i < reference.size(); ++i) {
    error += (double{a[i]} - reference[i]) * (double{a[i]} - reference[i]);
    total += double{reference[i]} * reference[i];
  }
  return std::sqrt(error / total);
}

// Gemma 4 scales every image up to its budget, so fewer tokens are asked of it here.
void shrink(TowerSpec& spec) { spec.max_tokens = std::min<int64_t>(spec.max_tokens, 12); }

class Families : public ::testing::TestWithParam<const char*> {
 protected:
  Projector projector() const {
    Projector result = parse(bytes_);
    shrink(result.spec);
    return result;
  }
  const std::vector<std::byte> bytes_ = TinyProjector(GetParam()).bytes();
};

TEST_P(Families, ExactKernelsGiveWhatPlainLoopsGive) {
  const auto reference = make_reference_executor(projector());
  for (const kernels::Isa& isa : kernels::all_isas()) {
    if (!isa.runs_here()) continue;
    const auto exact = cpu(projector(), {.n_threads = 2, .isa = std::string(isa.name), .is_exact = true});
    const auto rounded = cpu(projector(), {.n_threads = 2, .isa = std::string(isa.name)});
    for (const auto& [width, height] : {std::pair{24, 40}, {72, 8}, {56, 56}}) {
      const Patches patches = sample(reference->spec(), width, height);
      const std::vector<float> expected = run(*reference, patches);
      ASSERT_EQ(std::ssize(expected), patches.grid.n_tokens() * reference->spec().embedding_cols());
      EXPECT_LE(relative_rms(run(*exact, patches), expected), 1e-5) << isa.name;
      EXPECT_LE(relative_rms(run(*rounded, patches), expected), 3e-3) << isa.name;  // keys and values of f16
    }
  }
}

TEST_P(Families, PaddingChangesNothing) {
  const auto reference = make_reference_executor(projector());
  const auto exact = cpu(projector(), {.n_threads = 1, .is_exact = true});
  const Patches alone = sample(reference->spec(), 24, 40);
  const int64_t n_padded = (alone.n_rows / 36 + 3) * 36;
  const Patches padded = sample(reference->spec(), 24, 40, n_padded);
  for (Executor* executor : {reference.get(), exact.get()}) {
    const std::vector<float> expected = run(*executor, alone);
    const std::vector<float> rows = run(*executor, padded);
    ASSERT_GT(rows.size(), expected.size());
    EXPECT_LE(relative_rms(std::span(rows).first(expected.size()), expected), 1e-6);
  }
}

TEST_P(Families, ThreadsChangeNoBit) {
  const Patches patches = sample(projector().spec, 64, 48);
  const auto one = cpu(projector(), {.n_threads = 1});
  const auto expected = run(*one, patches);
  for (const int n : {2, 3}) EXPECT_EQ(run(*cpu(projector(), {.n_threads = n}), patches), expected);
  EXPECT_EQ(run(*one, patches), expected);
}

INSTANTIATE_TEST_SUITE_P(All, Families, ::testing::ValuesIn(kFamilyNames), [](const auto& param) {
  std::string name = param.param;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// Rows of a windowed block know nothing of other windows; those of full blocks do.
TEST(Windows, KeepRowsApart) {
  const std::vector<std::byte> bytes = TinyProjector("qwen2.5vl_merger").bytes();
  for (const bool has_full_block : {false, true}) {
    Projector projector = parse(bytes);
    for (Block& block : projector.spec.blocks) block.is_windowed = !has_full_block;
    const auto executor = cpu(std::move(projector), {.n_threads = 1, .is_exact = true});
    Image image = make_sample_image(64, 32, 3);
    const PixelSize size{.width = 64, .height = 32};
    const auto before = run(*executor, make_patches(executor->spec(), image, size));
    for (size_t x = 48 * 3; x < 64 * 3; ++x) image.rgb[x] ^= 0x80;  // within the last window of the first row
    const auto after = run(*executor, make_patches(executor->spec(), image, size));
    const auto n_cols = static_cast<size_t>(executor->spec().embedding_cols());
    const size_t window = 4 * n_cols;  // 2 x 2 tokens
    EXPECT_EQ(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(3 * window), after.begin()),
              !has_full_block);
    EXPECT_NE(before, after);
  }
}

TEST(Executor, StopsSoon) {
  const std::vector<std::byte> bytes =
      TinyProjector("qwen2vl_merger", {.width = 128, .ffn = 256, .blocks = 64, .heads = 4, .out = 64}).bytes();
  const auto executor = cpu(parse(bytes), {.n_threads = 1});
  const Patches patches = sample(executor->spec(), 256, 256);  // 4096 patches: some seconds
  std::stop_source source;
  Result<std::vector<float>> result;
  std::atomic<bool> has_begun = false;
  std::jthread thread([&] {
    has_begun = true;
    result = executor->run(patches, source.get_token());
  });
  while (!has_begun) std::this_thread::yield();
  const auto asked = std::chrono::steady_clock::now();
  source.request_stop();
  thread.join();
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code(), ErrorCode::kCancelled);
  // A chunk takes a millisecond or so here; a whole layer without one would take longer than this limit.
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::milliseconds(500));
  // And it works afterwards.
  EXPECT_TRUE(executor->run(sample(executor->spec(), 16, 16), {}).has_value());
}

TEST(Executor, NamesWhereItRuns) {
  const auto executor = cpu(parse(TinyProjector("qwen2vl_merger").bytes()), {.n_threads = 2});
  const Residency residency = executor->residency();
  EXPECT_EQ(residency.executor, "cpu");
  EXPECT_NE(residency.detail.find("2 threads"), std::string::npos);
  EXPECT_EQ(residency.n_fallback + residency.n_native, 2 * 6 + 2);
}

TEST(Executor, RefusesAnUnknownInstructionSet) {
  const std::vector<std::byte> bytes = TinyProjector("qwen2vl_merger").bytes();
  EXPECT_FALSE(make_cpu_executor(parse(bytes), {.isa = "pdp11"}));
}

}  // namespace
}  // namespace tempo9::vision
