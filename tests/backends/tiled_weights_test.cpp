// Copies of weights in tiles: who gets them, for how long, and what becomes of the memory they replace.
#include "backends/cpu/tiled_weights.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "kernels/tiles.h"

namespace tempo9::backends::cpu {
namespace {

using tensor::DType;
using tensor::WeightView;

constexpr int64_t kCols = 512, kRows = 4096;

std::vector<std::byte> random_bytes(size_t n) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

WeightView view_of(const std::byte* data) {
  return {.dtype = DType::kQ4_K,
          .cols = kCols,
          .rows = kRows,
          .data = data,
          .row_bytes = tensor::row_bytes(DType::kQ4_K, kCols)};
}
const std::vector<std::byte>& weight_bytes() {
  static const std::vector<std::byte> bytes = random_bytes(view_of(nullptr).size_bytes());
  return bytes;
}

// An instruction set of this machine that has tiles; null if there is none.
const kernels::MatMulKernels* kernels_with_tiles() {
  for (const kernels::Isa& isa : kernels::all_isas()) {
    if (isa.runs_here() && isa.matmul->tile_rows > 0) return isa.matmul;
  }
  return nullptr;
}

class TiledWeightsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kernels_with_tiles() == nullptr) GTEST_SKIP() << "no instruction set of this machine has tiles";
  }
};

void expect_copy(const WeightView& copy, const WeightView& weight) {
  EXPECT_EQ(copy.layout, tensor::Layout::kTiled);
  std::vector<std::byte> row(weight.row_bytes);
  for (const int64_t r : {int64_t{0}, int64_t{17}, kRows - 1}) {
    kernels::read_tiled_row(copy, kernels_with_tiles()->tile_rows, r, row.data());
    EXPECT_EQ(std::memcmp(row.data(), weight.row(r), row.size()), 0) << r;
  }
}

TEST_F(TiledWeightsTest, MakesACopyOnceForAllWhoAsk) {
  TiledWeights tiles(*kernels_with_tiles());
  const WeightView weight = view_of(weight_bytes().data());
  EXPECT_FALSE(tiles.find(weight));
  tiles.request(weight);
  tiles.request(weight);
  tiles.wait();
  EXPECT_EQ(tiles.n_made(), 1);
  ASSERT_TRUE(tiles.find(weight));
  expect_copy(*tiles.find(weight), weight);
  tiles.release(weight);
  EXPECT_TRUE(tiles.find(weight));
  tiles.release(weight);
  EXPECT_FALSE(tiles.find(weight));
}

TEST_F(TiledWeightsTest, LeavesWhatHasNoTilesInPlace) {
  TiledWeights tiles(*kernels_with_tiles());
  WeightView odd = view_of(weight_bytes().data());
  odd.rows = 7;
  tiles.request(odd);
  tiles.wait();
  EXPECT_FALSE(tiles.find(odd));
  EXPECT_EQ(tiles.n_made(), 0);
  tiles.release(odd);
}

// The source may go as soon as release() has returned, whatever the thread was doing.
TEST_F(TiledWeightsTest, LetsGoOfTheSourceAtAnyTime) {
  TiledWeights tiles(*kernels_with_tiles());
  for (int round = 0; round < 20; ++round) {
    auto bytes = std::make_unique<std::vector<std::byte>>(weight_bytes());
    const WeightView weight = view_of(bytes->data());
    tiles.request(weight);
    if (round % 4 == 0) tiles.wait();
    if (round % 4 == 1) std::this_thread::yield();
    tiles.release(weight);
    EXPECT_FALSE(tiles.find(weight));
  }
}

TEST_F(TiledWeightsTest, EndsWithWorkLeft) {
  const WeightView weight = view_of(weight_bytes().data());
  TiledWeights tiles(*kernels_with_tiles());
  tiles.request(weight);
}

TEST_F(TiledWeightsTest, DropsOnlyPagesThatAFileBringsBack) {
  const std::string path = testing::TempDir() + "tiled_weights";
  std::FILE* out = std::fopen(path.c_str(), "wb");
  ASSERT_NE(out, nullptr);
  ASSERT_EQ(std::fwrite(weight_bytes().data(), 1, weight_bytes().size(), out), weight_bytes().size());
  std::fclose(out);
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file);
  WeightView mapped = view_of(file->bytes().data());
  mapped.is_mapped = true;
  const std::vector<std::byte> own = weight_bytes();
  const WeightView plain = view_of(own.data());
  TiledWeights tiles(*kernels_with_tiles());
  for (const WeightView& weight : {mapped, plain}) tiles.request(weight);
  tiles.wait();
  for (const WeightView& weight : {mapped, plain}) {
    ASSERT_TRUE(tiles.find(weight));
    EXPECT_FALSE(tiles.find(weight)->is_mapped);
    expect_copy(*tiles.find(weight), weight);
    EXPECT_EQ(std::memcmp(weight.data, weight_bytes().data(), weight_bytes().size()), 0);
    tiles.release(weight);
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tempo9::backends::cpu
