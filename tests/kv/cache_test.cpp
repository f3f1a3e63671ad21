#include "kv/cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "kv/memory_backend.h"

namespace tempo9::kv {
namespace {

using tensor::kNoPage;
using tensor::kPageTokens;
using tensor::KvLayerSpec;

constexpr KvLayerSpec kFull{.n_kv_heads = 2, .k_head_dim = 8, .v_head_dim = 4, .window = 0};
constexpr KvLayerSpec kSliding{.n_kv_heads = 1, .k_head_dim = 8, .v_head_dim = 8, .window = 40};

std::unique_ptr<Cache> make_cache(testing::MemoryBackend& backend, std::vector<KvLayerSpec> layers, int64_t max_tokens,
                                  int64_t max_sequences) {
  auto cache = Cache::create(backend, layers, {},
                             {.type = tensor::KvType::kF32, .max_tokens = max_tokens, .max_sequences = max_sequences});
  EXPECT_TRUE(cache.has_value());
  return *std::move(cache);
}

int64_t n_pages(const tensor::PageTable& table) {
  return std::ranges::count_if(table.pages, [](int32_t page) { return page != kNoPage; });
}

TEST(Cache, LayersWithTheSameWindowShareAPool) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kSliding, kFull, kSliding, kFull}, 320, 2);
  const auto id = cache->add_sequence().value();
  ASSERT_TRUE(cache->grow(id, 33));
  EXPECT_EQ(cache->n_slots(id), 64);
  const tensor::KvView view = cache->view(std::vector{id});
  ASSERT_EQ(view.layers.size(), 4u);
  EXPECT_EQ(view.layers[0].pool, view.layers[2].pool);
  EXPECT_EQ(view.layers[1].pool, view.layers[3].pool);
  EXPECT_NE(view.layers[0].pool, view.layers[1].pool);
  EXPECT_EQ(view.tables.size(), 2u);
  EXPECT_EQ(cache->stats().pages_total, 10);
  EXPECT_EQ(cache->stats().pages_used, 2);
  EXPECT_EQ(cache->stats().bytes_per_page, 32u * 4 * 2 * (16 + 8 + 8 + 8));
}

TEST(Cache, AWindowFreesExactlyThePagesNoLaterRowSees) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull, kSliding}, 640, 1);
  const auto id = cache->add_sequence().value();
  for (int64_t length = 0; length <= 600; ++length) {
    ASSERT_TRUE(cache->grow(id, length));
    cache->set_length(id, length);
    const tensor::KvView view = cache->view(std::vector{id});
    EXPECT_EQ(n_pages(view.table(0, 0)), (length + 31) / 32);
    const auto pages = view.table(1, 0).pages;
    for (int64_t p = 0; p < static_cast<int64_t>(pages.size()); ++p) {
      // The next row is at slot `length` and sees j with length - j < 40.
      const bool is_visible = length - (p * kPageTokens + kPageTokens - 1) < kSliding.window;
      EXPECT_EQ(pages[static_cast<size_t>(p)] != kNoPage, is_visible) << "length " << length << " page " << p;
    }
  }
}

TEST(Cache, GrowIsAllOrNothing) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull, kSliding}, 128, 2);
  const auto a = cache->add_sequence().value();
  const auto b = cache->add_sequence().value();
  ASSERT_TRUE(cache->grow(a, 65));
  EXPECT_TRUE(cache->has_room(32));
  EXPECT_FALSE(cache->has_room(33));
  const auto refused = cache->grow(b, 33);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOutOfCapacity);
  EXPECT_EQ(cache->n_slots(b), 0);
  EXPECT_TRUE(cache->grow(b, 32));
  EXPECT_EQ(cache->stats().pages_used, 4);
  const auto third = cache->add_sequence();
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), ErrorCode::kOutOfCapacity);
}

TEST(Cache, RefusesATypeThatTheBackendLacks) {
  testing::MemoryBackend backend;
  const auto cache = Cache::create(backend, std::vector{kFull}, {}, {.max_tokens = 32, .max_sequences = 1});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code(), ErrorCode::kUnsupported);
}

TEST(Cache, RefusesSizesThatOverflow) {
  testing::MemoryBackend backend;
  const KvLayerSpec huge{.n_kv_heads = int64_t{1} << 30, .k_head_dim = 1 << 16, .v_head_dim = 1};
  const auto cache = Cache::create(backend, std::vector{huge}, {},
                                   {.type = tensor::KvType::kF32, .max_tokens = int64_t{1} << 30, .max_sequences = 1});
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code(), ErrorCode::kOutOfCapacity);
}

TEST(Cache, PagesAreZeroWhenTheyAreTaken) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull, kSliding}, 8192, 1);
  for (int round = 0; round < 3; ++round) {
    const auto id = cache->add_sequence().value();
    ASSERT_TRUE(cache->grow(id, 8192));
    const tensor::KvView view = cache->view(std::vector{id});
    for (const tensor::KvLayerView& layer : view.layers) {
      for (const int32_t page : view.table(layer.pool, 0).pages) {
        std::byte* k = layer.k + static_cast<size_t>(page) * layer.k_page_bytes;
        std::byte* v = layer.v + static_cast<size_t>(page) * layer.v_page_bytes;
        ASSERT_TRUE(std::all_of(k, k + layer.k_page_bytes, [](std::byte b) { return b == std::byte{0}; }));
        ASSERT_TRUE(std::all_of(v, v + layer.v_page_bytes, [](std::byte b) { return b == std::byte{0}; }));
        std::memset(k, 0xFF, layer.k_page_bytes);  // NaN
        std::memset(v, 0xFF, layer.v_page_bytes);
      }
    }
    cache->remove_sequence(id);
  }
}

TEST(Cache, MemoryOfManyFreePagesIsGivenBack) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull}, 32 * 1000, 1);
  EXPECT_EQ(cache->stats().resident_bytes, 0u);
  const auto id = cache->add_sequence().value();
  ASSERT_TRUE(cache->grow(id, 32 * 1000));
  EXPECT_EQ(cache->stats().resident_bytes, cache->stats().reserved_bytes);
  cache->remove_sequence(id);
  EXPECT_LE(cache->stats().resident_bytes, 64 * cache->stats().bytes_per_page);
}

TEST(Cache, TruncatingGivesBackThePagesThatHoldNothing) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull, kSliding}, 320, 2);
  const auto id = cache->add_sequence().value();
  const auto other = cache->add_sequence().value();
  ASSERT_TRUE(cache->grow(id, 100));
  cache->set_length(id, 60);
  const std::vector<int32_t> before = {cache->view({&id, 1}).table(0, 0).pages.begin(),
                                       cache->view({&id, 1}).table(0, 0).pages.end()};
  cache->truncate(id, 64);
  EXPECT_EQ(cache->n_slots(id), 64);
  EXPECT_EQ(cache->stats().pages_used, 2);
  const auto kept = cache->view({&id, 1}).table(0, 0).pages;
  EXPECT_TRUE(std::ranges::equal(kept, std::span(before).first(2)));
  cache->truncate(id, 61);  // within the last page
  EXPECT_EQ(cache->n_slots(id), 64);
  EXPECT_TRUE(cache->grow(other, 256));
  EXPECT_FALSE(cache->grow(id, 65));
  cache->remove_sequence(other);
  EXPECT_TRUE(cache->grow(id, 320));
}

constexpr tensor::StateLayerSpec kSmallState{.conv_floats = 6, .delta_floats = 24};
constexpr tensor::StateLayerSpec kLargeState{.conv_floats = 100, .delta_floats = 70000};

std::unique_ptr<Cache> make_state_cache(testing::MemoryBackend& backend, int64_t max_sequences) {
  return Cache::create(backend, std::vector{kFull}, std::vector{kSmallState, kLargeState},
                       {.type = tensor::KvType::kF32, .max_tokens = 320, .max_sequences = max_sequences})
      .value();
}

// The floats of both layers.
std::vector<std::span<float>> state_of(Cache& cache, SequenceId id) {
  const tensor::StateView view = cache.states({&id, 1});
  return {{view.state(0, 0), static_cast<size_t>(kSmallState.floats())},
          {view.state(1, 0), static_cast<size_t>(kLargeState.floats())}};
}

bool holds_only(Cache& cache, SequenceId id, float value) {
  return std::ranges::all_of(state_of(cache, id), [&](std::span<float> layer) {
    return std::ranges::all_of(layer, [&](float x) { return x == value; });
  });
}

void fill_state(Cache& cache, SequenceId id, float value) {
  for (const std::span<float> layer : state_of(cache, id)) std::ranges::fill(layer, value);
}

TEST(Cache, EverySequenceStartsWithItsOwnZeroState) {
  testing::MemoryBackend backend;
  auto cache = make_state_cache(backend, 2);
  for (int round = 0; round < 3; ++round) {
    const auto a = cache->add_sequence().value();
    const auto b = cache->add_sequence().value();
    fill_state(*cache, a, 1.0f);
    EXPECT_TRUE(holds_only(*cache, b, 0.0f));
    fill_state(*cache, b, 2.0f);
    EXPECT_TRUE(holds_only(*cache, a, 1.0f));
    EXPECT_EQ(cache->stats().states_used, 2);
    cache->remove_sequence(b);
    cache->remove_sequence(a);
  }
  EXPECT_EQ(cache->stats().states_used, 0);
}

TEST(Cache, OnTrialTheStateFromBeforeIsAtHand) {
  testing::MemoryBackend backend;
  auto cache = Cache::create(backend, std::vector{kFull}, std::vector{kSmallState, kLargeState},
                             {.type = tensor::KvType::kF32, .max_tokens = 320, .max_sequences = 2, .max_trials = 1})
                   .value();
  const std::vector<SequenceId> ids = {cache->add_sequence().value(), cache->add_sequence().value()};
  fill_state(*cache, ids[0], 1.0f);
  fill_state(*cache, ids[1], 2.0f);
  EXPECT_FALSE(cache->states(ids).is_on_trial(0));
  for (const bool keeps_all : {false, true}) {
    cache->begin_trial(ids[0]);
    const tensor::StateView view = cache->states(ids);
    ASSERT_TRUE(view.is_on_trial(0));
    EXPECT_FALSE(view.is_on_trial(1));
    EXPECT_EQ(*view.state_before(1, 0), 1.0f);
    EXPECT_NE(view.state_before(1, 0), view.state(1, 0));
    fill_state(*cache, ids[0], 3.0f);
    EXPECT_EQ(*view.state_before(1, 0), 1.0f);
    cache->end_trial(ids[0], keeps_all);
    EXPECT_TRUE(holds_only(*cache, ids[0], keeps_all ? 3.0f : 1.0f));
    EXPECT_TRUE(holds_only(*cache, ids[1], 2.0f));
  }
  cache->remove_sequence(ids[0]);
  EXPECT_EQ(cache->stats().states_used, 1);
}

TEST(Cache, ModelsWithoutStatePayNothingForIt) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull}, 64, 1);
  const auto id = cache->add_sequence().value();
  EXPECT_EQ(cache->stats().state_bytes, 0u);
  EXPECT_TRUE(cache->states({&id, 1}).states.empty());
}

TEST(CacheDeathTest, AStaleHandleIsOurMistake) {
  testing::MemoryBackend backend;
  auto cache = make_cache(backend, {kFull}, 64, 1);
  const auto old = cache->add_sequence().value();
  cache->remove_sequence(old);
  const auto current = cache->add_sequence().value();
  EXPECT_NE(old, current);
  EXPECT_DEATH(cache->n_slots(old), "stale");
}

// A model of the cache: what each sequence should hold.
struct Expected {
  int64_t n_slots = 0;
  int64_t length = 0;
};

void check_tables(Cache& cache, const std::map<int32_t, Expected>& alive, int64_t pages_total) {
  std::vector<SequenceId> ids;
  for (const auto& [value, expected] : alive) ids.push_back({value});
  const tensor::KvView view = cache.view(ids);
  int64_t most = 0;
  for (int32_t pool = 0; pool < 2; ++pool) {
    std::set<int32_t> seen;
    for (size_t i = 0; i < ids.size(); ++i) {
      const Expected& expected = alive.at(ids[i].value);
      ASSERT_EQ(cache.n_slots(ids[i]), expected.n_slots);
      const auto pages = view.table(pool, static_cast<int32_t>(i)).pages;
      ASSERT_EQ(static_cast<int64_t>(pages.size()) * kPageTokens, expected.n_slots);
      for (const int32_t page : pages) {
        if (page == kNoPage) continue;
        ASSERT_GE(page, 0);
        ASSERT_LT(page, pages_total);
        ASSERT_TRUE(seen.insert(page).second) << "page " << page << " is in two places";
      }
    }
    most = std::max(most, static_cast<int64_t>(seen.size()));
  }
  ASSERT_EQ(cache.stats().pages_used, most);
}

TEST(Cache, RandomOperationsFreeAsManyPagesAsTheyTake) {
  testing::MemoryBackend backend;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    const int64_t pages_total = 1 + below(60);
    auto cache = make_cache(backend, {kFull, kSliding}, pages_total * kPageTokens, 6);
    std::map<int32_t, Expected> alive;
    for (int step = 0; step < 400; ++step) {
      const int64_t action = below(8);
      if (action == 0 || alive.empty()) {
        const auto id = cache->add_sequence();
        ASSERT_EQ(id.has_value(), alive.size() < 6);
        if (id) alive[id->value] = {};
      } else {
        auto chosen = std::next(alive.begin(), below(static_cast<int64_t>(alive.size())));
        const SequenceId id{chosen->first};
        Expected& expected = chosen->second;
        if (action == 1) {
          cache->remove_sequence(id);
          alive.erase(chosen);
        } else if (action < 6) {
          const int64_t n_tokens = expected.length + below(300);
          const auto before = cache->stats().pages_used;
          const int64_t grown = (n_tokens + kPageTokens - 1) / kPageTokens * kPageTokens;
          if (cache->grow(id, n_tokens)) {
            expected.n_slots = std::max(expected.n_slots, grown);
          } else {
            ASSERT_EQ(cache->stats().pages_used, before);
            ASSERT_GT(grown, expected.n_slots);
          }
        } else if (expected.n_slots > expected.length) {
          expected.length += below(expected.n_slots - expected.length + 1);
          cache->set_length(id, expected.length);
        }
      }
      check_tables(*cache, alive, pages_total);
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << step;
    }
    for (const auto& [value, expected] : alive) cache->remove_sequence({value});
    EXPECT_EQ(cache->stats().pages_used, 0);
    EXPECT_TRUE(cache->has_room(pages_total * kPageTokens));
  }
}

}  // namespace
}  // namespace tempo9::kv
