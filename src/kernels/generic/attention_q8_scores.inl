// Scores of queries against a tile of int8 keys over the ISA's matmul_vec.h: tokens are lanes, as weight rows are in
// products. isa/scalar/attention_q8.cpp has the same in plain C++. Included inside the ISA's unnamed namespace.

// M query vectors from `first` on.
template <int M>
T9_INLINE void score_codes(const QueryCodes& queries, int64_t first, const int8_t* k, const uint16_t* k_scales,
                           float* scores) {
  constexpr int kVectors = 2;
  constexpr int kSteps = 4;  // of 4 columns
  const int64_t n_blocks = queries.n_blocks;
  for (int64_t key = 0; key < tensor::kPageTokens; key += kVectors * kLanes) {
    Floats acc[M][kVectors];
    for (int m = 0; m < M; ++m) acc[m][0] = acc[m][1] = zero_floats();
    const auto* codes = reinterpret_cast<const uint8_t*>(k) + key * 4;
    const auto* scales = reinterpret_cast<const uint8_t*>(k_scales + key);
    for (int64_t b = 0; b < n_blocks; ++b, scales += 2 * tensor::kPageTokens) {
      Ints total[M][kVectors];
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        total[m][0] = total[m][1] =
            kSignedBias == 0 ? zero_ints() : set_int32(-kSignedBias * queries.sums[(first + m) * n_blocks + b]);
      }
#pragma GCC unroll 2
      for (int step = 0; step < 8; step += kSteps, codes += kSteps * 4 * tensor::kPageTokens) {
        Ints keys[kVectors][kSteps];
#pragma GCC unroll 8
        for (int i = 0; i < kSteps; ++i) {
          const uint8_t* from = codes + i * 4 * tensor::kPageTokens;
          keys[0][i] = signed_codes(load_ints(from));
          keys[1][i] = signed_codes(load_ints(from + 4 * kLanes));
        }
        const Ints* const both[kVectors] = {keys[0], keys[1]};
        const int8_t* q[M];
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) q[m] = queries.codes + ((first + m) * n_blocks + b) * 32 + step * 4;
        multiply<255, kSteps, M, kVectors>(both, q, total);
      }
      const Floats d[kVectors] = {load_halves(scales), load_halves(scales + 2 * kLanes)};
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const Floats dq = set_floats(queries.scales[(first + m) * n_blocks + b]);
        acc[m][0] = mul_add(to_floats(total[m][0]), mul(d[0], dq), acc[m][0]);
        acc[m][1] = mul_add(to_floats(total[m][1]), mul(d[1], dq), acc[m][1]);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      store_floats(scores + m * tensor::kPageTokens + key, acc[m][0]);
      store_floats(scores + m * tensor::kPageTokens + key + kLanes, acc[m][1]);
    }
  }
}

// scores[i][key] for the query vectors [first, first + n).
void score_codes(const QueryCodes& queries, int64_t first, int64_t n, const int8_t* k, const uint16_t* k_scales,
                 float* scores) {
  constexpr int kMost = n_tile_rows(32) >= 8 ? 8 : 4;
  in_groups<kMost>(
      n, [&]<int M>(int64_t i) __attribute__((always_inline)) {
        score_codes<M>(queries, first + i, k, k_scales, scores + i * tensor::kPageTokens);
      });
}
