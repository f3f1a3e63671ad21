#include "probe.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tempo9 {
namespace {

// Keeps the compiler from leaving the work out.
volatile int32_t sink;

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vnni"))) void dots_512(int64_t repeats) {
  __m512i sums[16];
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(2);
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (int64_t i = 0; i < repeats; ++i) {
    // 64 products and as many additions each.
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) {
      sums[k] = _mm512_dpbusd_epi32(sums[k], a, b);
      asm volatile("" : "+v"(sums[k]));
    }
  }
  for (int k = 1; k < 16; ++k) sums[0] = _mm512_add_epi32(sums[0], sums[k]);
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, sums[0]);
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
#endif
  // No probe for other units: a share of about nothing says so.
  for (int64_t i = 0; i < repeats; ++i) sink = static_cast<int32_t>(i);
}

}  // namespace tempo9
