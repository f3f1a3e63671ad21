#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>

#include "kernels/isas.h"
#include "quant/quant.h"
#include "tensor/kv_type_names.h"

namespace tempo9::kernels {
namespace {

// Heads of `dim` values as int8 codes with a scale per 32 (as a half, for K and V), and back.
void round_to_codes(std::vector<float>& values, int64_t dim, bool is_half) {
  for (size_t head = 0; head < values.size(); head += static_cast<size_t>(dim)) {
    for (int64_t begin = 0; begin < dim; begin += 32) {
      const auto block = std::span(values).subspan(head + static_cast<size_t>(begin),
                                                   static_cast<size_t>(std::min<int64_t>(32, dim - begin)));
      float d = 0.0f;
      for (const float x : block) d = std::max(d, std::fabs(x) / 127.0f);
      if (is_half) d = quant::f16_to_f32(quant::f32_to_f16(d));
      for (float& x : block) x = d * std::clamp(std::nearbyint(x * (1.0f / d)), -127.0f, 127.0f);
    }
  }
}

// A sequence with random K and V in shuffled pages, and one query row per slot.
struct Sequence {
  AttentionShape shape;
  tensor::KvType type;
  int64_t n_tokens;
  std::vector<float> q, k, v;
  std::vector<int32_t> ends;  // of each slot, one past the last one it sees; empty: itself
  std::vector<int32_t> pages;
  std::vector<std::byte> k_pool, v_pool;
  mutable std::vector<std::byte> scratch;

  Sequence(const AttentionShape& s, tensor::KvType kv_type, int64_t tokens, uint32_t seed)
      : shape(s), type(kv_type), n_tokens(tokens) {
    std::mt19937 rng(seed);
    q = random_floats(rng, static_cast<size_t>(tokens * s.n_heads * s.k_head_dim));
    k = random_floats(rng, static_cast<size_t>(tokens * s.n_kv_heads * s.k_head_dim));
    v = random_floats(rng, static_cast<size_t>(tokens * s.n_kv_heads * s.v_head_dim));
    pages.resize(static_cast<size_t>((tokens + tensor::kPageTokens - 1) / tensor::kPageTokens));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), rng);
    // What another sequence has left behind in the pages: finite, and not to be seen.
    const std::byte stale{0x5a};
    k_pool.assign(pages.size() * k_page_bytes(s, type), stale);
    v_pool.assign(pages.size() * v_page_bytes(s, type), stale);
    scratch.resize(attention_scratch_bytes(s, tokens * s.n_heads / s.n_kv_heads) + 64);
  }

  // Slots [begin, end) see each other in both directions.
  void add_image(int32_t begin, int32_t end) {
    for (auto slot = static_cast<int32_t>(ends.size()); slot < n_tokens; ++slot) ends.push_back(slot + 1);
    for (int32_t slot = begin; slot < end; ++slot) ends[static_cast<size_t>(slot)] = end;
  }
  int64_t end_of(int64_t slot) const { return ends.empty() ? slot + 1 : ends[static_cast<size_t>(slot)]; }

  void write(const Isa& isa) {
    for (int64_t i = 0; i < n_tokens; ++i) {
      const auto page = static_cast<size_t>(pages[static_cast<size_t>(i / tensor::kPageTokens)]);
      isa.attention(type).write(shape, k.data() + i * shape.n_kv_heads * shape.k_head_dim,
                                v.data() + i * shape.n_kv_heads * shape.v_head_dim,
                                k_pool.data() + page * k_page_bytes(shape, type),
                                v_pool.data() + page * v_page_bytes(shape, type), i % tensor::kPageTokens);
    }
  }

  // Output rows of the slots [begin, end) as one call; the caller's split of rows must not matter.
  std::vector<float> attend(const Isa& isa, int64_t begin, int64_t end, const float* sinks = nullptr) const {
    const AttentionKernels& kernels = isa.attention(type);
    std::vector<int32_t> slots(static_cast<size_t>(end - begin));
    std::iota(slots.begin(), slots.end(), static_cast<int32_t>(begin));
    const int64_t n_rows = end - begin;
    const AttentionRows rows{.q = q.data() + begin * shape.n_heads * shape.k_head_dim,
                             .q_stride = shape.n_heads * shape.k_head_dim,
                             .slots = slots.data(),
                             .ends = ends.empty() ? nullptr : ends.data() + begin,
                             .n_rows = n_rows,
                             .pages = pages.data(),
                             .k = k_pool.data(),
                             .v = v_pool.data(),
                             .k_page_bytes = k_page_bytes(shape, type),
                             .v_page_bytes = v_page_bytes(shape, type),
                             .scratch = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64)};
    const int64_t n_vectors = n_rows * shape.n_heads / shape.n_kv_heads;
    State part(n_vectors, shape.v_head_dim);
    State total(n_vectors, shape.v_head_dim);
    std::vector<float> out(static_cast<size_t>(n_rows * shape.n_heads * shape.v_head_dim));
    for (int64_t head = 0; head < shape.n_kv_heads; ++head) {
      kernels.attend_span(shape, rows, head, 0, total.view());
      for (int64_t span = 1; span * kSpanTokens < end_of(end - 1); ++span) {
        kernels.attend_span(shape, rows, head, span, part.view());
        kernels.merge(shape, n_vectors, part.view(), total.view());
      }
      kernels.finish(shape, n_rows, head, total.view(), sinks, out.data(), shape.n_heads * shape.v_head_dim);
    }
    return out;
  }

  // What attention reads: Q, K and V as the cache's type leaves them.
  Sequence as_read() const {
    Sequence read = *this;
    if (type == tensor::KvType::kQ8_0) {
      round_to_codes(read.q, shape.k_head_dim, false);
      round_to_codes(read.k, shape.k_head_dim, true);
      round_to_codes(read.v, shape.v_head_dim, true);
    } else if (type == tensor::KvType::kF16) {
      for (auto* values : {&read.k, &read.v}) {
        for (float& x : *values) x = quant::f16_to_f32(quant::f32_to_f16(x));
      }
    }
    return read;
  }

  // Softmax attention of one slot in double.
  std::vector<double> naive(int64_t slot, const float* sinks) const {
    std::vector<double> out;
    for (int64_t h = 0; h < shape.n_heads; ++h) {
      const int64_t kv = h * shape.n_kv_heads / shape.n_heads;
      const int64_t first = shape.window > 0 ? std::max<int64_t>(0, slot - shape.window + 1) : 0;
      std::vector<double> p;
      double total = sinks != nullptr ? std::exp(sinks[h]) : 0.0;
      for (int64_t j = first; j < end_of(slot); ++j) {
        double s = 0.0;
        for (int64_t d = 0; d < shape.k_head_dim; ++d) {
          s += static_cast<double>(q[(slot * shape.n_heads + h) * shape.k_head_dim + d]) *
               k[(j * shape.n_kv_heads + kv) * shape.k_head_dim + d];
        }
        s *= shape.scale;
        if (shape.softcap > 0.0f) s = shape.softcap * std::tanh(s / shape.softcap);
        p.push_back(std::exp(s));
        total += p.back();
      }
      for (int64_t c = 0; c < shape.v_head_dim; ++c) {
        double o = 0.0;
        for (int64_t j = first; j < end_of(slot); ++j) {
          o += p[j - first] / total * v[(j * shape.n_kv_heads + kv) * shape.v_head_dim + c];
        }
        out.push_back(o);
      }
    }
    return out;
  }

 private:
  struct State {
    State(int64_t n, int64_t dim) : max(n), sum(n), values(n * dim) {}
    AttentionState view() { return {max.data(), sum.data(), values.data()}; }
    std::vector<float> max, sum, values;
  };
};

std::vector<AttentionShape> shapes() {
  return {
      {.n_heads = 1, .n_kv_heads = 1, .k_head_dim = 8, .v_head_dim = 8, .scale = 0.35f},
      {.n_heads = 9, .n_kv_heads = 3, .k_head_dim = 64, .v_head_dim = 64, .scale = 0.125f},
      {.n_heads = 4, .n_kv_heads = 1, .k_head_dim = 256, .v_head_dim = 256, .scale = 0.0625f, .window = 40},
      {.n_heads = 10, .n_kv_heads = 2, .k_head_dim = 20, .v_head_dim = 36, .scale = 0.2f, .softcap = 3.0f},
      {.n_heads = 7, .n_kv_heads = 1, .k_head_dim = 16, .v_head_dim = 16, .scale = 0.25f, .window = 1},
      {.n_heads = 2, .n_kv_heads = 2, .k_head_dim = 32, .v_head_dim = 48, .scale = 0.2f, .window = 600},
  };
}

class Attention : public testing::TestWithParam<std::tuple<AttentionShape, tensor::KvType>> {
 protected:
  const AttentionShape& shape() const { return std::get<AttentionShape>(GetParam()); }
  Sequence make_sequence(int64_t n_tokens, uint32_t seed) const {
    return Sequence(shape(), std::get<tensor::KvType>(GetParam()), n_tokens, seed);
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Combine(testing::ValuesIn(shapes()), testing::ValuesIn(tensor::kKvTypes)));

TEST_P(Attention, FollowsTheFormula) {
  Sequence sequence = make_sequence(70, 1);
  const Sequence read = sequence.as_read();
  const std::vector<float> sinks(static_cast<size_t>(shape().n_heads), 0.4f);
  for (const float* s : {static_cast<const float*>(nullptr), sinks.data()}) {
    const Isa& isa = best_isa();
    sequence.write(isa);
    const std::vector<float> out = sequence.attend(isa, 0, 70, s);
    for (int64_t slot = 0; slot < 70; ++slot) {
      const std::vector<double> expected = read.naive(slot, s);
      // Scores are sums of up to 256 products of size about |score| <= 6: their rounding scales p by 1 +- 1e-5. Codes
      // have no error here but that of their own sums of up to 8 blocks.
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(out[static_cast<size_t>(slot) * expected.size() + i], expected[i], 3e-5) << "slot " << slot;
      }
    }
  }
}

TEST_P(Attention, FollowsTheFormulaOverSpans) {
  Sequence sequence = make_sequence(1100, 2);
  const Sequence read = sequence.as_read();
  sequence.write(best_isa());
  for (int64_t slot : {510, 511, 512, 513, 1023, 1024, 1099}) {
    const std::vector<float> out = sequence.attend(best_isa(), slot, slot + 1);
    const std::vector<double> expected = read.naive(slot, nullptr);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(out[i], expected[i], 3e-5) << "slot " << slot;
  }
}

// Images that begin and end inside pages, one over a span's end; between them rows see up to themselves.
void add_images(Sequence& sequence) {
  sequence.add_image(3, 4);
  sequence.add_image(20, 70);
  sequence.add_image(500, 530);
  sequence.add_image(560, 580);
}

TEST_P(Attention, RowsOfAnImageSeeAllOfIt) {
  Sequence sequence = make_sequence(600, 6);
  add_images(sequence);
  const Sequence read = sequence.as_read();
  sequence.write(best_isa());
  for (int64_t slot : {0, 3, 4, 19, 20, 33, 69, 70, 499, 500, 511, 512, 529, 530, 559, 560, 579, 580, 599}) {
    const std::vector<float> out = sequence.attend(best_isa(), slot, slot + 1);
    const std::vector<double> expected = read.naive(slot, nullptr);
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(out[i], expected[i], 3e-5) << "slot " << slot;
  }
}

TEST_P(Attention, ImagesHaveEqualBitsHoweverRowsAreGroupedOnEveryIsa) {
  std::vector<float> first;
  for (const Isa* isa : isas_here()) {
    Sequence sequence = make_sequence(600, 7);
    add_images(sequence);
    sequence.write(*isa);
    for (int64_t chunk : {7, 32, 600}) {
      if (isa->name == "scalar" && chunk < 600) continue;  // slow
      std::vector<float> joined;
      for (int64_t begin = 0; begin < 600; begin += chunk) {
        const std::vector<float> part = sequence.attend(*isa, begin, std::min<int64_t>(begin + chunk, 600));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      if (first.empty()) first = joined;
      EXPECT_EQ(bits_of(joined), bits_of(first)) << isa->name << ", chunks of " << chunk;
    }
  }
}

TEST_P(Attention, HasEqualBitsOnEveryIsa) {
  std::vector<float> sinks(static_cast<size_t>(shape().n_heads), -1.0f);
  std::vector<float> first;
  for (const Isa* isa : isas_here()) {
    Sequence sequence = make_sequence(600, 3);
    sequence.write(*isa);
    std::vector<float> out = sequence.attend(*isa, 0, 45, sinks.data());
    const std::vector<float> late = sequence.attend(*isa, 590, 600);
    out.insert(out.end(), late.begin(), late.end());
    if (first.empty()) first = out;
    EXPECT_EQ(bits_of(out), bits_of(first)) << isa->name;
  }
}

TEST_P(Attention, HasEqualBitsHoweverRowsAreGrouped) {
  Sequence sequence = make_sequence(580, 4);
  for (const Isa* isa : isas_here()) {
    if (isa->name == "scalar") continue;  // slow, and equal to the others by the test above
    sequence.write(*isa);
    const std::vector<float> whole = sequence.attend(*isa, 0, 580);
    for (int64_t chunk : {1, 7, 32, 61}) {
      std::vector<float> joined;
      for (int64_t begin = 0; begin < 580; begin += chunk) {
        const std::vector<float> part = sequence.attend(*isa, begin, std::min<int64_t>(begin + chunk, 580));
        joined.insert(joined.end(), part.begin(), part.end());
      }
      EXPECT_EQ(bits_of(joined), bits_of(whole)) << isa->name << ", chunks of " << chunk;
    }
  }
}

// A chunk writes later tokens of the page before its first row attends; decode meets the page half written.
TEST_P(Attention, DoesNotSeeTokensToCome) {
  Sequence sequence = make_sequence(50, 5);
  const Isa& isa = best_isa();
  sequence.write(isa);
  const std::vector<float> whole = sequence.attend(isa, 0, 50);
  Sequence shorter = sequence;
  shorter.n_tokens = 41;
  std::ranges::fill(shorter.k_pool, std::byte{0x11});
  std::ranges::fill(shorter.v_pool, std::byte{0x91});
  shorter.write(isa);
  const std::vector<float> row = shorter.attend(isa, 40, 41);
  const std::vector<float> same(whole.begin() + 40 * std::ssize(row), whole.begin() + 41 * std::ssize(row));
  EXPECT_EQ(bits_of(row), bits_of(same));
}

// How much codes of 8 bits may move an output. A rounding error is uniform within half a scale, amax / 254, and of 32
// normal values the largest is about 2.1 times their deviation sigma: an rms error e of 2.1 / 254 * 2 / sqrt(12) =
// 0.0048 sigma. A score of deviation s takes it from q and from k: sqrt(2) e s. A weight p_j moves by p_j times that,
// and v by e, so of the output, which is a mean with weights p_j, e sqrt(2 s^2 + 1) is moved. Allowed: twice that.
TEST(AttentionQ8, IsAsNearToFloatsAsCodesAre) {
  const AttentionShape shape{.n_heads = 4, .n_kv_heads = 2, .k_head_dim = 128, .v_head_dim = 128, .scale = 0.0884f};
  Sequence codes(shape, tensor::KvType::kQ8_0, 300, 9), floats(shape, tensor::KvType::kF32, 300, 9);
  codes.write(best_isa());
  floats.write(best_isa());
  const std::vector<float> got = codes.attend(best_isa(), 200, 300), expected = floats.attend(best_isa(), 200, 300);
  double error = 0.0, size = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i] - expected[i]), 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LT(std::sqrt(error / size), 2 * 0.0048 * std::sqrt(3.0));
  EXPECT_GT(std::sqrt(error / size), 1e-4) << "these are not codes";
}

TEST(AttentionQ8, TakesTheMemoryThatItsFormatSays) {
  for (const auto& [dim, padded] : {std::pair{64, 64}, {80, 96}, {128, 128}, {20, 32}}) {
    const AttentionShape shape{.n_heads = 6, .n_kv_heads = 3, .k_head_dim = dim, .v_head_dim = 2 * dim};
    // Per token a byte for each column, and two for each 32 of them.
    EXPECT_EQ(k_page_bytes(shape, tensor::KvType::kQ8_0), 3u * 32 * padded * 34 / 32);
  }
}

TEST(AttentionWrite, KeepsPagesFinite) {
  const AttentionShape shape{.n_heads = 1, .n_kv_heads = 1, .k_head_dim = 4, .v_head_dim = 4};
  const float kInf = std::numeric_limits<float>::infinity();
  const float values[4] = {1e30f, -kInf, std::numeric_limits<float>::quiet_NaN(), 65504.0f};
  for (const Isa* isa : isas_here()) {
    std::vector<uint16_t> k(4 * 32), v(4 * 32);
    isa->attention_f16->write(shape, values, values, reinterpret_cast<std::byte*>(k.data()),
                              reinterpret_cast<std::byte*>(v.data()), 3);
    for (size_t d = 0; d < 4; ++d) {
      EXPECT_EQ(std::fabs(quant::f16_to_f32(k[d * 32 + 3])), 65504.0f) << isa->name;
      EXPECT_EQ(k[d * 32 + 3], v[3 * 4 + d]);
    }
    std::vector<float> wide_k(4 * 32), wide_v(4 * 32);
    isa->attention_f32->write(shape, values, values, reinterpret_cast<std::byte*>(wide_k.data()),
                              reinterpret_cast<std::byte*>(wide_v.data()), 3);
    for (size_t d = 0; d < 4; ++d) {
      EXPECT_TRUE(std::isfinite(wide_k[d * 32 + 3])) << isa->name;
      EXPECT_EQ(wide_k[d * 32 + 3], wide_v[3 * 4 + d]);
    }
    EXPECT_EQ(wide_v[3 * 4], 1e30f);
    std::vector<int8_t> code_k(32 * 34), code_v(32 * 34);
    isa->attention_q8->write(shape, values, values, reinterpret_cast<std::byte*>(code_k.data()),
                             reinterpret_cast<std::byte*>(code_v.data()), 3);
    for (const auto* page : {&code_k, &code_v}) {
      uint16_t scale;
      std::memcpy(&scale, page->data() + 32 * 32 + 2 * 3, sizeof scale);
      EXPECT_EQ(quant::f16_to_f32(scale), 65504.0f) << isa->name;
    }
    for (size_t d = 0; d < 4; ++d) {
      EXPECT_EQ(std::abs(code_k[4 * 3 + d]), d == 3 ? 1 : 127) << isa->name;
      EXPECT_EQ(code_k[4 * 3 + d], code_v[3 * 32 + d]);
    }
  }
}

}  // namespace
}  // namespace tempo9::kernels
