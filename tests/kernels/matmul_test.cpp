// Matrix products: every ISA against the definition (the scalar set), bit for bit; the definition against doubles.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/isas.h"
#include "kernels/tiles.h"
#include "quant/quant.h"

namespace tempo9::kernels {
namespace {

using tensor::DType;

struct QuantTypeCase {
  DType dtype;
  std::vector<size_t> halves;  // offsets of the half-precision numbers in a block
};

const std::vector<QuantTypeCase>& quant_types() {
  static const std::vector<QuantTypeCase> types = {
      {DType::kQ4_0, {0}},   {DType::kQ4_1, {0, 2}}, {DType::kQ5_0, {0}},    {DType::kQ5_1, {0, 2}},
      {DType::kQ8_0, {0}},   {DType::kIQ4_NL, {0}},  {DType::kMXFP4, {}},    {DType::kQ2_K, {80, 82}},
      {DType::kQ3_K, {108}}, {DType::kQ4_K, {0, 2}}, {DType::kQ5_K, {0, 2}}, {DType::kQ6_K, {208}},
      {DType::kIQ4_XS, {0}},
  };
  return types;
}

// What fills a weight's blocks.
enum class Fill { kRandom, kOnes, kZeros, kSignBits, kTinyScales };
constexpr Fill kFills[] = {Fill::kRandom, Fill::kOnes, Fill::kZeros, Fill::kSignBits, Fill::kTinyScales};

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : engine_(seed) {}
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  float normal() { return std::normal_distribution<float>()(engine_); }

 private:
  std::mt19937 engine_;
};

std::vector<std::byte> make_blocks(const QuantTypeCase& type, int64_t n_blocks, Fill fill, Numbers& numbers) {
  const auto block_bytes = static_cast<size_t>(tensor::dtype_info(type.dtype).block_bytes);
  std::vector<std::byte> bytes(static_cast<size_t>(n_blocks) * block_bytes);
  for (std::byte& b : bytes) {
    switch (fill) {
      case Fill::kOnes:
        b = std::byte{0xff};
        break;
      case Fill::kZeros:
        b = std::byte{0};
        break;
      case Fill::kSignBits:
        b = std::byte{0x80};
        break;
      default:
        b = static_cast<std::byte>(numbers.integer(0, 255));
    }
  }
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (size_t offset : type.halves) {
      uint16_t half = quant::f32_to_f16(numbers.real(-0.1f, 0.1f));
      if (fill == Fill::kTinyScales) half = static_cast<uint16_t>(numbers.integer(0, 3) | numbers.integer(0, 1) << 15);
      std::memcpy(&bytes[block + offset], &half, sizeof half);
    }
    if (type.dtype == DType::kMXFP4) {
      bytes[block] =
          static_cast<std::byte>(fill == Fill::kTinyScales ? numbers.integer(0, 3) : numbers.integer(90, 150));
    }
  }
  return bytes;
}

// Quantised rows that own their memory.
struct OwnedRows {
  std::vector<int8_t> q;
  std::vector<float> d;
  std::vector<int16_t> sums;
  QuantizedRows view;

  OwnedRows(ActFormat format, int64_t rows, int64_t cols) {
    view.format = format;
    view.rows = rows;
    view.cols = cols;
    q.resize(static_cast<size_t>(rows * cols));
    d.resize(static_cast<size_t>(rows * cols / view.block()));
    sums.resize(static_cast<size_t>(rows * cols / view.sum_group()));
    view.q = q.data();
    view.d = d.data();
    view.sums = sums.data();
  }
  QuantizedRows first(int64_t rows) const {
    QuantizedRows some = view;
    some.rows = rows;
    return some;
  }
};

// Random rows; among them rows of only 127, only -127, only 0, and scales of 0 and subnormal.
OwnedRows make_activations(ActFormat format, int64_t rows, int64_t cols, Numbers& numbers) {
  OwnedRows x(format, rows, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int kind = static_cast<int>(r % 8);
      x.q[static_cast<size_t>(r * cols + c)] = static_cast<int8_t>(kind == 1   ? 127
                                                                   : kind == 2 ? -127
                                                                   : kind == 3 ? 0
                                                                               : numbers.integer(-127, 127));
    }
  }
  for (float& d : x.d) {
    const int kind = numbers.integer(0, 15);
    d = kind == 0 ? 0.0f : kind == 1 ? 1e-39f : numbers.real(0.0f, 0.05f);
  }
  const auto group = static_cast<size_t>(x.view.sum_group());
  for (size_t i = 0; i < x.q.size(); ++i) x.sums[i / group] = static_cast<int16_t>(x.sums[i / group] + x.q[i]);
  return x;
}

WeightView weight_view(DType dtype, const std::vector<std::byte>& bytes, int64_t rows, int64_t cols) {
  return {
      .dtype = dtype, .cols = cols, .rows = rows, .data = bytes.data(), .row_bytes = tensor::row_bytes(dtype, cols)};
}

struct Scratch {
  explicit Scratch(size_t bytes) : memory(bytes + 64) {}
  std::byte* aligned() {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + ((address + 63) / 64 * 64 - address);
  }
  std::vector<std::byte> memory;
};

const MatMulKernels& definition() { return *find_isa("scalar")->matmul; }

constexpr float kUntouched = 12345.0f;

template <class Run>
std::vector<float> product(int64_t rows, int64_t weight_rows, Run&& run) {
  std::vector<float> out(static_cast<size_t>(rows * weight_rows), kUntouched);
  run(MatView<float>{out.data(), rows, weight_rows, weight_rows});
  return out;
}

// Every ISA that runs here, except the definition itself.
std::vector<const Isa*> fast_isas() {
  std::vector<const Isa*> isas;
  for (const Isa& isa : all_isas()) {
    if (isa.name != "scalar" && isa.runs_here()) isas.push_back(&isa);
  }
  return isas;
}

// `expected` has `all_rows` columns for weight rows; `actual` is for the first weight.rows of them.
void expect_same(const std::vector<float>& expected, int64_t all_rows, const std::vector<float>& actual, int64_t m,
                 const WeightView& weight, IndexRange range, const std::string& what) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t r = 0; r < weight.rows; ++r) {
      const bool inside = r >= range.begin && r < range.end;
      const float want = inside ? expected[static_cast<size_t>(i * all_rows + r)] : kUntouched;
      const float got = actual[static_cast<size_t>(i * weight.rows + r)];
      ASSERT_EQ(std::bit_cast<uint32_t>(want), std::bit_cast<uint32_t>(got))
          << what << " m=" << m << " cols=" << weight.cols << " rows=" << weight.rows << " [" << range.begin << ", "
          << range.end << ") at row " << r << " activation row " << i << ": want " << want << " got " << got;
    }
  }
}

constexpr int64_t kMs[] = {1, 2, 3, 4, 5, 8, 9, 17, 33, 55, 64};
constexpr int64_t kMaxM = 64;
constexpr int64_t kRowCounts[] = {1, 7, 16, 33};
constexpr int64_t kMaxRows = 33;

std::vector<IndexRange> ranges_of(int64_t rows) {
  std::vector<IndexRange> ranges = {{0, rows}};
  if (rows == kMaxRows) ranges.insert(ranges.end(), {{0, 5}, {3, 20}, {16, 33}, {31, 32}});
  return ranges;
}

// Row i of `some` is row picked[i] of `all`, bit for bit.
void expect_rows(const std::vector<float>& some, const std::vector<float>& all, std::span<const int32_t> picked,
                 int64_t cols, std::string_view what) {
  for (size_t i = 0; i < picked.size(); ++i) {
    EXPECT_EQ(std::memcmp(some.data() + static_cast<int64_t>(i) * cols, all.data() + picked[i] * cols,
                          static_cast<size_t>(cols) * sizeof(float)),
              0)
        << what << " row " << i;
  }
}

class QuantProducts : public testing::TestWithParam<QuantTypeCase> {};

TEST_P(QuantProducts, EveryIsaGivesTheBitsOfTheDefinition) {
  const QuantTypeCase& type = GetParam();
  const int64_t block = tensor::dtype_info(type.dtype).block_elements;
  Numbers numbers(7);
  for (int64_t cols : {32, 96, 256, 576, 640, 1536}) {
    if (cols % block != 0) continue;
    const OwnedRows x = make_activations(act_format(type.dtype), kMaxM, cols, numbers);
    for (Fill fill : kFills) {
      const std::vector<std::byte> blocks = make_blocks(type, kMaxRows * cols / block, fill, numbers);
      const WeightView all = weight_view(type.dtype, blocks, kMaxRows, cols);
      const std::vector<float> expected = product(kMaxM, kMaxRows, [&](MatView<float> out) {
        definition().quant(type.dtype)(all, {0, kMaxRows}, x.view, out, nullptr);
      });
      for (const Isa* isa : fast_isas()) {
        for (int64_t rows : kRowCounts) {
          // A copy of exactly these rows, so that an address sanitizer sees reads past the end.
          const std::vector<std::byte> exact(blocks.begin(),
                                             blocks.begin() + static_cast<ptrdiff_t>(all.row_bytes) * rows);
          const WeightView weight = weight_view(type.dtype, exact, rows, cols);
          Scratch scratch(isa->matmul->scratch_bytes(weight));
          for (const IndexRange range : ranges_of(rows)) {
            for (int64_t m : kMs) {
              const std::vector<float> actual = product(m, rows, [&](MatView<float> out) {
                isa->matmul->quant(type.dtype)(weight, range, x.first(m), out, scratch.aligned());
              });
              expect_same(expected, kMaxRows, actual, m, weight, range,
                          std::string(isa->name) + " fill " + std::to_string(static_cast<int>(fill)));
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

// The same weight in tiles of `isa`, in memory of exactly its size.
struct TiledWeight {
  std::vector<std::byte> memory;
  WeightView view;

  TiledWeight(const Isa& isa, const WeightView& in_place) : memory(in_place.size_bytes()), view(in_place) {
    isa.matmul->write_tiles(in_place, {0, in_place.rows * in_place.depth}, memory.data());
    view.data = memory.data();
    view.layout = tensor::Layout::kTiled;
  }
};

std::vector<const Isa*> isas_with_tiles() {
  std::vector<const Isa*> isas;
  for (const Isa* isa : fast_isas()) {
    if (isa->matmul->tile_rows > 0) isas.push_back(isa);
  }
  return isas;
}

TEST_P(QuantProducts, TilesGiveTheBitsOfTheDefinition) {
  const QuantTypeCase& type = GetParam();
  const int64_t block = tensor::dtype_info(type.dtype).block_elements;
  const int64_t rows = 96;
  Numbers numbers(23);
  for (int64_t cols : {32, 96, 256, 768, 5120}) {
    if (cols % block != 0) continue;
    const OwnedRows x = make_activations(act_format(type.dtype), kMaxM, cols, numbers);
    for (Fill fill : kFills) {
      const std::vector<std::byte> blocks = make_blocks(type, rows * cols / block, fill, numbers);
      const WeightView weight = weight_view(type.dtype, blocks, rows, cols);
      const std::vector<float> expected = product(kMaxM, rows, [&](MatView<float> out) {
        definition().quant(type.dtype)(weight, {0, rows}, x.view, out, nullptr);
      });
      for (const Isa* isa : isas_with_tiles()) {
        ASSERT_TRUE(can_tile(*isa->matmul, weight)) << isa->name;
        const TiledWeight tiled(*isa, weight);
        Scratch scratch(isa->matmul->scratch_bytes(tiled.view));
        for (const IndexRange range : {IndexRange{0, rows}, {32, 96}, {3, 20}, {31, 32}, {16, 64}}) {
          for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 33, 55, 64}) {
            if (cols > 1000 && m > 8 && m != 33) continue;
            const std::vector<float> actual = product(m, rows, [&](MatView<float> out) {
              isa->matmul->quant(type.dtype)(tiled.view, range, x.first(m), out, scratch.aligned());
            });
            expect_same(expected, rows, actual, m, weight, range,
                        std::string(isa->name) + " tiles, fill " + std::to_string(static_cast<int>(fill)));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(QuantProducts, TilesHoldEveryRow) {
  const QuantTypeCase& type = GetParam();
  const int64_t block = tensor::dtype_info(type.dtype).block_elements;
  const int64_t rows = 32, cols = 512, depth = 3;
  Numbers numbers(25);
  const std::vector<std::byte> blocks = make_blocks(type, rows * depth * cols / block, Fill::kRandom, numbers);
  WeightView weight = weight_view(type.dtype, blocks, rows, cols);
  weight.depth = depth;
  for (const Isa* isa : isas_with_tiles()) {
    const TiledWeight tiled(*isa, weight);
    std::vector<std::byte> row(weight.row_bytes);
    for (int64_t r = 0; r < rows * depth; ++r) {
      read_tiled_row(tiled.view, isa->matmul->tile_rows, r, row.data());
      ASSERT_EQ(std::memcmp(row.data(), weight.row(r), row.size()), 0) << isa->name << " row " << r;
    }
  }
}

TEST(Tiles, AreMadeOfWholePairsOfGroupsOfQuantisedRows) {
  const std::vector<std::byte> bytes(tensor::row_bytes(DType::kQ8_0, 64) * 64);
  for (const Isa& isa : all_isas()) {
    const int64_t n = isa.matmul->tile_rows;
    EXPECT_EQ(can_tile(*isa.matmul, weight_view(DType::kQ8_0, bytes, 2 * n, 64)), n > 0) << isa.name;
    EXPECT_FALSE(can_tile(*isa.matmul, weight_view(DType::kQ8_0, bytes, 3 * n + (n == 0), 64))) << isa.name;
    EXPECT_FALSE(can_tile(*isa.matmul, weight_view(DType::kF16, bytes, 2 * n, 64))) << isa.name;
  }
}

// Rows with repetitions, in no order.
constexpr std::array<int32_t, 41> kPicked = [] {
  std::array<int32_t, 41> rows{};
  for (int32_t i = 0; i < 41; ++i) rows[static_cast<size_t>(i)] = (7 * i * i + i / 3) % 10;
  return rows;
}();

TEST_P(QuantProducts, TakeTheRowsThatAreListed) {
  const QuantTypeCase& type = GetParam();
  const int64_t block = tensor::dtype_info(type.dtype).block_elements;
  const int64_t cols = 512, rows = 40;
  Numbers numbers(13);
  const std::vector<std::byte> blocks = make_blocks(type, rows * cols / block, Fill::kRandom, numbers);
  const WeightView weight = weight_view(type.dtype, blocks, rows, cols);
  OwnedRows x = make_activations(act_format(type.dtype), 10, cols, numbers);
  for (const Isa* isa : isas_here()) {
    Scratch scratch(isa->matmul->scratch_bytes(weight));
    const auto run = [&](const QuantizedRows& some) {
      return product(some.rows, rows, [&](MatView<float> out) {
        isa->matmul->quant(type.dtype)(weight, {0, rows}, some, out, scratch.aligned());
      });
    };
    const std::vector<float> all = run(x.view);
    for (int64_t n : {1, 3, 11, 41}) {
      QuantizedRows some = x.first(n);
      some.picked = kPicked.data();
      expect_rows(run(some), all, {kPicked.data(), static_cast<size_t>(n)}, rows, isa->name);
    }
  }
}

// The integer part is exact and the float steps are few: the definition is within rounding of the same sum in doubles.
// Tolerance: one rounding of 2^-24 per fma, and one per scale product, relative to the sum of the terms' magnitudes.
TEST_P(QuantProducts, DefinitionIsTheSumOfDecodedWeightsTimesActivations) {
  const QuantTypeCase& type = GetParam();
  const int64_t block = tensor::dtype_info(type.dtype).block_elements;
  const int64_t cols = 1536;
  const int64_t rows = 5;
  const int64_t m = 3;
  Numbers numbers(11);
  const std::vector<std::byte> blocks = make_blocks(type, rows * cols / block, Fill::kRandom, numbers);
  const WeightView weight = weight_view(type.dtype, blocks, rows, cols);
  const OwnedRows x = make_activations(act_format(type.dtype), m, cols, numbers);
  const std::vector<float> actual = product(m, rows, [&](MatView<float> out) {
    definition().quant(type.dtype)(weight, {0, rows}, x.view, out, nullptr);
  });
  std::vector<float> decoded(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    quant::find_type(type.dtype)->decode(weight.row(r), decoded.data(), cols);
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      double magnitude = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const double term = static_cast<double>(decoded[static_cast<size_t>(c)]) *
                            x.d[static_cast<size_t>((i * cols + c) / x.view.block())] *
                            x.q[static_cast<size_t>(i * cols + c)];
        sum += term;
        magnitude += std::abs(term);
      }
      const double n_steps = 3.0 * static_cast<double>(cols / block);
      // Decoding rounds too, twice per value at most; types with mins or m cancel in it.
      const double tolerance = magnitude * (n_steps + 4) * std::ldexp(1.0, -24) + 1e-30;
      EXPECT_NEAR(actual[static_cast<size_t>(i * rows + r)], sum, tolerance) << "row " << r << " activation row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, QuantProducts, testing::ValuesIn(quant_types()),
                         [](const auto& tested) { return std::string(tensor::dtype_name(tested.param.dtype)); });

TEST(MatMul, CoversEveryUsableType) {
  for (const tensor::DTypeInfo& info : tensor::all_dtypes()) {
    if (info.state != tensor::DTypeState::kUsable) continue;
    SCOPED_TRACE(info.name);
    const bool is_float = act_format(info.dtype) == ActFormat::kF32;
    bool tested = is_float;
    for (const QuantTypeCase& type : quant_types()) tested |= type.dtype == info.dtype;
    EXPECT_TRUE(tested);
    for (const Isa& isa : all_isas()) {
      if (is_float) {
        EXPECT_NE(isa.matmul->floating(info.dtype), nullptr);
      } else {
        EXPECT_NE(isa.matmul->quant(info.dtype), nullptr);
      }
    }
  }
}

// ---- Float weights --------------------------------------------------------------------------------------------------

class FloatProducts : public testing::TestWithParam<DType> {};

std::vector<std::byte> make_floats(DType dtype, int64_t n, Numbers& numbers) {
  std::vector<std::byte> bytes(tensor::row_bytes(dtype, n));
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const float value = numbers.integer(0, 20) == 0 ? 1e-7f * numbers.normal() : numbers.normal();
    if (dtype == DType::kF32) {
      std::memcpy(&bytes[4 * i], &value, 4);
    } else {
      const uint16_t bits = dtype == DType::kF16 ? quant::f32_to_f16(value) : quant::f32_to_bf16(value);
      std::memcpy(&bytes[2 * i], &bits, 2);
    }
  }
  return bytes;
}

TEST_P(FloatProducts, EveryIsaGivesTheBitsOfTheDefinition) {
  const DType dtype = GetParam();
  Numbers numbers(3);
  for (int64_t cols : {1, 7, 16, 31, 96, 576, 1000}) {
    const int64_t stride = cols + 3;
    std::vector<float> x(static_cast<size_t>(kMaxM * stride));
    for (float& v : x) v = numbers.normal();
    const std::vector<std::byte> bytes = make_floats(dtype, kMaxRows * cols, numbers);
    const WeightView all = weight_view(dtype, bytes, kMaxRows, cols);
    const std::vector<float> expected = product(kMaxM, kMaxRows, [&](MatView<float> out) {
      definition().floating(dtype)(all, {0, kMaxRows}, {x.data(), kMaxM, cols, stride}, out, nullptr);
    });
    for (const Isa* isa : fast_isas()) {
      for (int64_t rows : kRowCounts) {
        const std::vector<std::byte> exact(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(all.row_bytes) * rows);
        const WeightView weight = weight_view(dtype, exact, rows, cols);
        Scratch scratch(isa->matmul->scratch_bytes(weight));
        for (const IndexRange range : ranges_of(rows)) {
          for (int64_t m : kMs) {
            const std::vector<float> actual = product(m, rows, [&](MatView<float> out) {
              isa->matmul->floating(dtype)(weight, range, {x.data(), m, cols, stride}, out, scratch.aligned());
            });
            expect_same(expected, kMaxRows, actual, m, weight, range, std::string(isa->name));
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(FloatProducts, TakeTheRowsThatAreListed) {
  const DType dtype = GetParam();
  const int64_t cols = 100, rows = 20;
  Numbers numbers(15);
  std::vector<float> x(static_cast<size_t>(10 * cols));
  for (float& v : x) v = numbers.normal();
  const std::vector<std::byte> bytes = make_floats(dtype, rows * cols, numbers);
  const WeightView weight = weight_view(dtype, bytes, rows, cols);
  for (const Isa* isa : isas_here()) {
    const auto run = [&](const FloatRows& some) {
      return product(some.rows, rows, [&](MatView<float> out) {
        isa->matmul->floating(dtype)(weight, {0, rows}, some, out, nullptr);
      });
    };
    const std::vector<float> all = run({x.data(), 10, cols, cols});
    for (int64_t n : {1, 3, 11, 41}) {
      expect_rows(run({x.data(), n, cols, cols, kPicked.data()}), all, {kPicked.data(), static_cast<size_t>(n)}, rows,
                  isa->name);
    }
  }
}

TEST_P(FloatProducts, DefinitionIsTheSumInDoubles) {
  const DType dtype = GetParam();
  const int64_t cols = 1000;
  const int64_t rows = 4;
  Numbers numbers(5);
  std::vector<float> x(static_cast<size_t>(cols));
  for (float& v : x) v = numbers.normal();
  const std::vector<std::byte> bytes = make_floats(dtype, rows * cols, numbers);
  const WeightView weight = weight_view(dtype, bytes, rows, cols);
  const std::vector<float> actual = product(1, rows, [&](MatView<float> out) {
    definition().floating(dtype)(weight, {0, rows}, {x.data(), 1, cols, cols}, out, nullptr);
  });
  std::vector<float> decoded(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    quant::find_type(dtype)->decode(weight.row(r), decoded.data(), cols);
    double sum = 0;
    double magnitude = 0;
    for (size_t c = 0; c < static_cast<size_t>(cols); ++c) {
      sum += static_cast<double>(decoded[c]) * x[c];
      magnitude += std::abs(static_cast<double>(decoded[c]) * x[c]);
    }
    // 63 fmas per lane and 4 additions of the tree.
    EXPECT_NEAR(actual[static_cast<size_t>(r)], sum, magnitude * 67 * std::ldexp(1.0, -24));
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, FloatProducts, testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& tested) { return std::string(tensor::dtype_name(tested.param)); });

// ---- Quantising activations -----------------------------------------------------------------------------------------

class Quantising : public testing::TestWithParam<ActFormat> {};

// Rows with what rounding and scaling can stumble over.
std::vector<float> awkward_rows(int64_t rows, int64_t cols, Numbers& numbers) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      float& v = x[static_cast<size_t>(r * cols + c)];
      switch (r) {
        case 0:
          v = 0.0f;
          break;
        case 1:  // halves between integers: 127 makes the scale exactly 1
          v = c % 32 == 0 ? 127.0f : static_cast<float>(numbers.integer(-126, 125)) + 0.5f;
          break;
        case 2:
          v = 1e-40f * numbers.normal();
          break;
        case 3:
          v = 3e38f * numbers.real(-1.0f, 1.0f);
          break;
        case 4:
          v = c == cols / 2 ? 1000.0f : 0.001f * numbers.normal();
          break;
        case 5:
          v = c % 2 == 0 ? -0.0f : 2e-36f * numbers.normal();
          break;
        default:
          v = numbers.normal();
      }
    }
  }
  return x;
}

TEST_P(Quantising, EveryIsaGivesTheBitsOfTheDefinition) {
  Numbers numbers(17);
  const int64_t rows = 9;
  for (int64_t cols : {256, 1536}) {
    const std::vector<float> x = awkward_rows(rows, cols, numbers);
    const MatView<const float> view{x.data(), rows, cols, cols};
    OwnedRows expected(GetParam(), rows, cols);
    definition().quantize(view, {0, rows}, expected.view);
    for (const Isa* isa : fast_isas()) {
      SCOPED_TRACE(isa->name);
      OwnedRows actual(GetParam(), rows, cols);
      isa->matmul->quantize(view, {0, 4}, actual.view);
      isa->matmul->quantize(view, {4, rows}, actual.view);
      EXPECT_EQ(expected.q, actual.q);
      EXPECT_EQ(expected.sums, actual.sums);
      for (size_t i = 0; i < expected.d.size(); ++i) {
        EXPECT_EQ(std::bit_cast<uint32_t>(expected.d[i]), std::bit_cast<uint32_t>(actual.d[i])) << i;
      }
    }
  }
}

TEST_P(Quantising, KeepsEveryValueWithinHalfAStep) {
  Numbers numbers(19);
  const int64_t cols = 512;
  std::vector<float> x(static_cast<size_t>(cols));
  for (float& v : x) v = numbers.normal();
  OwnedRows out(GetParam(), 1, cols);
  definition().quantize({x.data(), 1, cols, cols}, {0, 1}, out.view);
  for (size_t c = 0; c < static_cast<size_t>(cols); ++c) {
    const float d = out.d[c / static_cast<size_t>(out.view.block())];
    EXPECT_NEAR(d * out.q[c], x[c], 0.5001f * d) << c;
  }
}

// A NaN or infinity must not vanish, and must not make the code -128, which products do not allow for.
TEST_P(Quantising, PassesNonFiniteValuesOnInTheScale) {
  const int64_t cols = 256;
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(static_cast<size_t>(cols), 1.0f);
    x[77] = bad;
    for (const Isa& isa : all_isas()) {
      if (!isa.runs_here()) continue;
      SCOPED_TRACE(isa.name);
      OwnedRows out(GetParam(), 1, cols);
      isa.matmul->quantize({x.data(), 1, cols, cols}, {0, 1}, out.view);
      EXPECT_FALSE(std::isfinite(out.d[77 / static_cast<size_t>(out.view.block())]));
      for (int8_t q : out.q) EXPECT_GE(q, -127);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Quantising, testing::Values(ActFormat::kA32, ActFormat::kA256),
                         [](const auto& tested) { return tested.param == ActFormat::kA32 ? "A32" : "A256"; });

}  // namespace
}  // namespace tempo9::kernels
