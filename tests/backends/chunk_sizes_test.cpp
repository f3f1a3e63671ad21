#include "backends/cpu/chunk_sizes.h"

#include <gtest/gtest.h>

#include <set>

namespace tempo9::backends::cpu {
namespace {

TEST(ChunkInTurn, TakesEachChunkOnceAndEachWorkerOnesThatFollowEachOther) {
  for (int64_t n_workers = 1; n_workers <= 8; ++n_workers) {
    for (int64_t n = 1; n <= 40; ++n) {
      std::set<int64_t> taken;
      for (int64_t chunk = 0; chunk < n; ++chunk) {
        const int64_t place = chunk_in_turn(chunk, n, n_workers);
        EXPECT_GE(place, 0);
        EXPECT_LT(place, n);
        EXPECT_TRUE(taken.insert(place).second) << chunk << " of " << n << ", " << n_workers << " workers";
        if (chunk < n_workers) continue;
        EXPECT_EQ(place, chunk_in_turn(chunk - n_workers, n, n_workers) + 1);
      }
    }
  }
}

}  // namespace
}  // namespace tempo9::backends::cpu
