// Matrix products of many rows with 256-value types on AMX, which multiplies tiles of 16 activation rows by 16 weight
// rows; everything else is the AVX-512 set's. Integers are exact, and the float steps are those of
// isa/scalar/matmul.cpp in the same order, so the bits are the same.
//
// Weights are unpacked to signed bytes in the order of a tile: 4 columns of 16 rows side by side, as vectors of
// AVX-512 hold them. Code times sub-scale is at most 4096 in magnitude and is split into 64 * high + low, both signed
// bytes, so that the sums of a whole super-block stay in the tile unit. (32-value types gain nothing: each 32 columns
// the sums leave the unit for their float steps. docs/experiments.md)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <type_traits>
#include <utility>

#include "kernels/isa/avx512/matmul_vec.h"
#include "kernels/kernels.h"

namespace tempo9::kernels::avx512 {
extern const MatMulKernels kMatMulKernels;
}

namespace tempo9::kernels::amx {
namespace {

// In this order: each uses the ones before.
// clang-format off
#include "kernels/generic/matmul_types.inl"
#include "kernels/generic/matmul_groups.inl"
// clang-format on

// Fewer rows are multiplied faster without tiles: what a tile of weights takes to unpack is shared by few.
constexpr int64_t kMinRows = 32;
// Weight rows that meet a block of activation rows while that is in L1.
constexpr int64_t kMaxGroups = 8;

// Keeps the compiler from moving memory accesses across what the tile instructions, which it does not look into, read.
T9_INLINE void settle_memory() { asm volatile("" ::: "memory"); }

// What the 8 tile registers hold: `rows` rows of `row_bytes` bytes each.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int n_rows, int n_bytes) {
    rows[tile] = static_cast<uint8_t>(n_rows);
    row_bytes[tile] = static_cast<uint16_t>(n_bytes);
  }
};

// ---- One super-block ------------------------------------------------------------------------------------------------

// A super-block of 16 rows: sub-scale times code is 64 * high + low. MinWords: vectors of mins, two groups each.
template <int MinWords>
struct Block256 {
  Ints high[64];
  Ints low[64];
  Floats d;
  Floats dmin;
  Ints mins[MinWords == 0 ? 1 : MinWords];
};

template <class T>
constexpr int kMinWords = T::kSide == Side::kMins ? 128 / T::kGroup : 0;

// q[k], which have one scale (the integer in each lane), times it.
T9_INLINE void split_product(Ints q, Ints scale_words, int bias, Ints& high, Ints& low) {
  const Ints even_bytes = set_int32(0x00ff00ff);
  const Ints even = _mm512_mullo_epi16(
      _mm512_sub_epi16(and_bits(q, even_bytes), _mm512_set1_epi16(static_cast<int16_t>(bias))), scale_words);
  const Ints odd = _mm512_mullo_epi16(
      _mm512_sub_epi16(_mm512_srli_epi16(q, 8), _mm512_set1_epi16(static_cast<int16_t>(bias))), scale_words);
  high = or_bits(and_bits(_mm512_srai_epi16(even, 6), even_bytes), _mm512_slli_epi16(_mm512_srai_epi16(odd, 6), 8));
  const Ints low6 = set_int32(0x003f003f);
  low = or_bits(and_bits(even, low6), _mm512_slli_epi16(and_bits(odd, low6), 8));
}

template <class T, class R>
void unpack_256(R rows, int64_t n_blocks, Block256<kMinWords<T>>* out, Prefetcher<T>& prefetch) {
  Prefetcher<T> prefetcher = prefetch;
  for (int64_t b = 0; b < n_blocks; ++b, ++out) {
    typename T::Header header;
    T::header(rows, header);
    out->d = header.d;
    if constexpr (T::kSide == Side::kMins) {
      out->dmin = header.dmin;
      for (int i = 0; i < kMinWords<T>; ++i) out->mins[i] = header.side[i];
    }
    T::codes(
        rows, [&]<int N>(int column, const Ints(&q)[N]) __attribute__((always_inline)) {
          prefetcher.at_columns(4 * N);
          const Ints scale = header.scale[column / T::kGroup];
          const Ints words = or_bits(and_bits(scale, set_int32(0xffff)), shift_left<16>(scale));
          for (int k = 0; k < N; ++k) {
            split_product(q[k], words, T::kBias, out->high[column / 4 + k], out->low[column / 4 + k]);
          }
        });
    rows = rows.at(T::kBlockBytes);
  }
  prefetch = prefetcher;
}

// 32 activation rows at one super-block; rows beyond the last are zero.
struct alignas(64) Act256 {
  int8_t q[32][256];
  float d[32];
  int16_t sums[32][16];  // over the columns of each min; 8 or 16 of them

  template <int MinWords>
  void load(const QuantizedRows& x, int64_t first, int64_t n_rows, int64_t block) {
    for (int64_t m = 0; m < 32; ++m) {
      if (m >= n_rows) {
        __builtin_memset(q[m], 0, sizeof q[m]);
        __builtin_memset(sums[m], 0, sizeof sums[m]);
        d[m] = 0.0f;
        continue;
      }
      const int64_t row = x.source(first + m);
      __builtin_memcpy(q[m], x.q + row * x.cols + block * 256, 256);
      d[m] = x.d[row * (x.cols / 256) + block];
      const int16_t* sums16 = x.sums + row * (x.cols / 16) + block * 16;
      if constexpr (MinWords == 4) add_word_pairs(sums16, sums[m]);
      if constexpr (MinWords == 8) __builtin_memcpy(sums[m], sums16, sizeof sums[m]);
    }
  }
};

// Sums of 32 activation rows times 16 weight rows over a super-block.
struct alignas(64) Sums256 {
  int32_t high[32][16];
  int32_t low[32][16];
};

// 64 columns of it. Tiles 0 and 1 are sums of rows 0-15 times high and low, 2 and 3 those of rows 16-31.
template <int MinWords>
T9_INLINE void multiply_columns(const Act256& act, const Block256<MinWords>& w, int step, bool has_second) {
  _tile_loadd(4, &act.q[0][64 * step], 256);
  _tile_loadd(6, &w.high[16 * step], 64);
  _tile_dpbssd(0, 4, 6);
  _tile_loadd(7, &w.low[16 * step], 64);
  _tile_dpbssd(1, 4, 7);
  if (!has_second) return;
  _tile_loadd(5, &act.q[16][64 * step], 256);
  _tile_dpbssd(2, 5, 6);
  _tile_dpbssd(3, 5, 7);
}

// The float steps of rows [begin, begin + 8).
template <int MinWords>
T9_INLINE void finish_256(const Act256& act, const Block256<MinWords>& w, const Sums256& sums, int64_t begin,
                          Floats* acc) {
#pragma GCC unroll 8
  for (int64_t m = begin; m < begin + 8; ++m) {
    const Ints high = _mm512_load_si512(sums.high[m]);
    const Ints total = add_int32(shift_left<6>(high), _mm512_load_si512(sums.low[m]));
    const Floats dy = set_floats(act.d[m]);
    Floats sum = mul_add(to_floats(total), mul(w.d, dy), acc[m]);
    if constexpr (MinWords > 0) {
      Ints mins = zero_ints();
#pragma GCC unroll 8
      for (int i = 0; i < MinWords; ++i) mins = multiply_words(mins, w.mins[i], act.sums[m] + 2 * i);
      sum = neg_mul_add(to_floats(mins), mul(w.dmin, dy), sum);
    }
    acc[m] = sum;
  }
}

// Memory of a call besides its panel of weights.
struct Work256 {
  static constexpr int64_t kRows = 32;
  Act256 act;
  Sums256 sums[2];
  Floats acc[kMaxGroups][kRows];
};

// All groups of a panel times up to 32 activation rows at one super-block. The float steps of a group are done while
// the tile unit works on the next.
template <int MinWords>
void multiply_256(const Block256<MinWords>* block, int64_t n_blocks, int64_t n_groups, bool has_second, Work256& work) {
  const Block256<MinWords>* before = nullptr;
  settle_memory();
  for (int64_t g = 0; g <= n_groups; ++g) {
    const bool has_more = g < n_groups;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
#pragma GCC unroll 4
    for (int step = 0; step < 4; ++step) {
      if (has_more) multiply_columns(work.act, *block, step, has_second);
      if (before != nullptr && (has_second || step < 2)) {
        finish_256(work.act, *before, work.sums[(g - 1) % 2], 8 * step, work.acc[g - 1]);
      }
    }
    if (!has_more) break;
    Sums256& out = work.sums[g % 2];
    _tile_stored(0, out.high[0], 64);
    _tile_stored(1, out.low[0], 64);
    _tile_stored(2, out.high[16], 64);
    _tile_stored(3, out.low[16], 64);
    settle_memory();
    before = block;
    block += n_blocks;
  }
}

void configure_tiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, 16, 64);
  _tile_loadconfig(&config);
}

// ---- All rows -------------------------------------------------------------------------------------------------------

template <class T>
using BlockOf = Block256<kMinWords<T>>;

// Scratch memory: Work256, the panel, copies of the rows of small matrices.
template <class T>
struct ScratchLayout {
  size_t panel;
  size_t copies;
  size_t end;

  explicit ScratchLayout(const WeightView& weight) {
    const int64_t n_groups = (weight.rows + kLanes - 1) / kLanes;
    const int64_t n_blocks = (n_groups < kMaxGroups ? n_groups : kMaxGroups) * (weight.cols / T::kBlock);
    panel = sizeof(Work256);
    copies = panel + static_cast<size_t>(n_blocks) * sizeof(BlockOf<T>);
    end = copies + (weight.rows < kLanes ? static_cast<size_t>(kLanes) * weight.row_bytes : 0);
  }
};

// Up to kMaxGroups groups of weight rows from `begin`; returns how many.
template <class R>
int64_t find_groups(const WeightView& weight, int64_t begin, int64_t end, std::byte* copies,
                    RowGroup<R> (&groups)[kMaxGroups]) {
  int64_t n = 0;
  for (int64_t r = begin; n < kMaxGroups && r < end; r += groups[n++].n) {
    groups[n] = row_group<R>(weight, r, end, copies);
  }
  return n;
}

template <class T, class R>
void multiply_tiles(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
                    std::byte* scratch) {
  const ScratchLayout<T> layout(weight);
  auto& work = *reinterpret_cast<Work256*>(scratch);
  auto* panel = reinterpret_cast<BlockOf<T>*>(scratch + layout.panel);
  const int64_t n_blocks = weight.cols / T::kBlock;
  Prefetcher<T> prefetch(weight, weight_rows);
  configure_tiles();
  for (int64_t r = weight_rows.begin; r < weight_rows.end;) {
    RowGroup<R> groups[kMaxGroups];
    const int64_t n_groups = find_groups(weight, r, weight_rows.end, scratch + layout.copies, groups);
    for (int64_t g = 0; g < n_groups; ++g) unpack_256<T>(groups[g].rows, n_blocks, panel + g * n_blocks, prefetch);
    for (int64_t first = 0; first < x.rows; first += Work256::kRows) {
      const int64_t n_rows = x.rows - first < Work256::kRows ? x.rows - first : Work256::kRows;
      for (int64_t g = 0; g < n_groups; ++g) {
        for (Floats& sum : work.acc[g]) sum = zero_floats();
      }
      for (int64_t b = 0; b < n_blocks; ++b) {
        work.act.template load<kMinWords<T>>(x, first, n_rows, b);
        multiply_256(panel + b, n_blocks, n_groups, n_rows > 16, work);
      }
      for (int64_t g = 0; g < n_groups; ++g) {
        for (int64_t m = 0; m < n_rows; ++m) {
          store_lanes(groups[g], work.acc[g][m], out.data + (first + m) * out.stride);
        }
      }
    }
    r = groups[n_groups - 1].first + groups[n_groups - 1].n;
  }
  _tile_release();
}

template <class T>
void matmul(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
            std::byte* scratch) {
  if (x.rows < kMinRows) {
    avx512::kMatMulKernels.quant(weight.dtype)(weight, weight_rows, x, out, scratch);
  } else if (weight.layout == tensor::Layout::kTiled) {
    multiply_tiles<T, Tile>(weight, weight_rows, x, out, scratch);
  } else {
    multiply_tiles<T, InPlace>(weight, weight_rows, x, out, scratch);
  }
}

// with_type, for the types that are multiplied here.
template <class F, class R>
R with_type_of_tiles(tensor::DType dtype, F&& f, R otherwise) {
  return with_type(
      dtype,
      [&](auto type) -> R {
        if constexpr (decltype(type)::type::kBlock == 256) return f(type);
        return otherwise;
      },
      otherwise);
}

MatMulQuant find_quant(tensor::DType dtype) {
  return with_type_of_tiles(
      dtype, [](auto type) -> MatMulQuant { return matmul<typename decltype(type)::type>; },
      avx512::kMatMulKernels.quant(dtype));
}

size_t scratch_bytes(const WeightView& weight) {
  const size_t few_rows = avx512::kMatMulKernels.scratch_bytes(weight);
  const size_t many_rows = with_type_of_tiles(
      weight.dtype, [&](auto type) { return ScratchLayout<typename decltype(type)::type>(weight).end; }, size_t{0});
  return few_rows > many_rows ? few_rows : many_rows;
}

void quantize(MatView<const float> x, IndexRange rows, const QuantizedRows& out) {
  avx512::kMatMulKernels.quantize(x, rows, out);
}
MatMulFloat find_float(tensor::DType dtype) { return avx512::kMatMulKernels.floating(dtype); }
bool is_native(tensor::DType dtype) { return avx512::kMatMulKernels.is_native(dtype); }
void write_tiles(const WeightView& weight, IndexRange rows, std::byte* out) {
  avx512::kMatMulKernels.write_tiles(weight, rows, out);
}

}  // namespace

// Whether this CPU has the tiles and Linux lets this process use them: they are 8 KiB of state for each thread, which
// it gives only to who asks (arch_prctl(2)).
bool may_use_tiles() {
  constexpr unsigned kTileAndInt8 = 3u << 24;  // of edx of leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTileAndInt8) != kTileAndInt8) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

extern const MatMulKernels kMatMulKernels;
const MatMulKernels kMatMulKernels = {
    .quantize = quantize,
    .quant = find_quant,
    .floating = find_float,
    .is_native = is_native,
    .scratch_bytes = scratch_bytes,
    .row_granule = 2 * kLanes,
    .tile_rows = kLanes,
    .write_tiles = write_tiles,
};

}  // namespace tempo9::kernels::amx
