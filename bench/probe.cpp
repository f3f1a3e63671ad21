#include "probe.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tempo9 {
namespace {

// Keeps the compiler from leaving the work out.
volatile int32_t sink;

#if defined(__x86_64__)
#define T9_VNNI __attribute__((target("avx512f,avx512vnni")))

// 64 products and as many additions.
T9_VNNI __attribute__((always_inline)) inline void dot_512(__m512i& sum, __m512i a, __m512i b) {
  sum = _mm512_dpbusd_epi32(sum, a, b);
  asm volatile("" : "+v"(sum));
}

// Sums by name: of an array of them the compiler keeps a part in memory.
T9_VNNI void dots_512(int64_t repeats) {
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(2);
  __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0, s8 = s0, s9 = s0;
  for (int64_t i = 0; i < repeats; ++i) {
    dot_512(s0, a, b);
    dot_512(s1, a, b);
    dot_512(s2, a, b);
    dot_512(s3, a, b);
    dot_512(s4, a, b);
    dot_512(s5, a, b);
    dot_512(s6, a, b);
    dot_512(s7, a, b);
    dot_512(s8, a, b);
    dot_512(s9, a, b);
  }
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, _mm512_add_epi32(s0, s9));
  sink = lanes[0];
}

#define T9_AVX2 __attribute__((target("avx2")))

// 32 products and as many additions, half of them in 16 bits with the next ones.
T9_AVX2 __attribute__((always_inline)) inline void dot_256(__m256i& sum, __m256i a, __m256i b) {
  __m256i products = _mm256_maddubs_epi16(a, b);
  asm volatile("" : "+x"(products));
  sum = _mm256_add_epi16(sum, products);
  asm volatile("" : "+x"(sum));
}

T9_AVX2 void dots_256(int64_t repeats) {
  const __m256i a = _mm256_set1_epi8(3), b = _mm256_set1_epi8(2);
  __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0, s8 = s0, s9 = s0;
  for (int64_t i = 0; i < 2 * repeats; ++i) {
    dot_256(s0, a, b);
    dot_256(s1, a, b);
    dot_256(s2, a, b);
    dot_256(s3, a, b);
    dot_256(s4, a, b);
    dot_256(s5, a, b);
    dot_256(s6, a, b);
    dot_256(s7, a, b);
    dot_256(s8, a, b);
    dot_256(s9, a, b);
  }
  alignas(32) int32_t lanes[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_add_epi16(s0, s9));
  sink = lanes[0];
}
#endif

}  // namespace

void read_bytes(const std::byte* data, int64_t bytes) {
  constexpr int64_t kStreams = 4, kAhead = 2048;
  const int64_t part = bytes / kStreams / 64 * 64;
  uint64_t sums[kStreams] = {};
  for (int64_t at = 0; at < part; at += 64) {
    for (int64_t s = 0; s < kStreams; ++s) {
      const auto* line = reinterpret_cast<const uint64_t*>(data + s * part + at);
      __builtin_prefetch(line + kAhead / 8, 0, 3);
      for (int k = 0; k < 8; ++k) sums[s] += line[k];
    }
  }
  for (uint64_t sum : sums) sink = static_cast<int32_t>(sum);
}

void int8_dots(int64_t repeats) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) {
    dots_512(repeats);
    return;
  }
  if (__builtin_cpu_supports("avx2")) {
    dots_256(repeats);
    return;
  }
#endif
  // No probe for other units: a share of about nothing says so.
  for (int64_t i = 0; i < repeats; ++i) sink = static_cast<int32_t>(i);
}

}  // namespace tempo9
