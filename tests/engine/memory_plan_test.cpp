#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

#include "tensor/kv_view.h"

namespace tempo9::engine {
namespace {

TEST(MemoryPlan, NeverPromisesMoreThanTheBudget) {
  std::mt19937_64 random(1);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int i = 0; i < 10'000; ++i) {
    const MemoryNeeds needs{.activations = below(100'000'000),
                            .disk_buffers = below(50'000'000),
                            .speculation = below(2) * below(80'000'000),
                            .image_rows = below(2) * below(20'000'000),
                            .page = 1 + below(5'000'000),
                            .state = below(2) * below(200'000'000),
                            .trial_states = static_cast<int64_t>(below(2) * below(33)),
                            .max_batch = static_cast<int64_t>(1 + below(32)),
                            .context_length = static_cast<int64_t>(2 + below(200'000))};
    const size_t budget = below(20'000'000'000);
    const auto plan = plan_memory(needs, budget);
    if (!plan) {
      EXPECT_EQ(plan.error().code(), ErrorCode::kInvalidInput);
      continue;
    }
    const int64_t states = plan->kept_states + needs.trial_states + needs.max_batch;
    const size_t promised = needs.activations + needs.disk_buffers + needs.speculation + needs.image_rows +
                            static_cast<size_t>(plan->pages) * needs.page + static_cast<size_t>(states) * needs.state;
    ASSERT_LE(promised, budget);
    EXPECT_GE(plan->pages, 16);
    EXPECT_LE(plan->kept_pages, plan->pages);
    EXPECT_LE(plan->context_length, needs.context_length);
    EXPECT_LE(plan->context_length, plan->pages * tensor::kPageTokens);
  }
}

TEST(MemoryPlan, SaysWhatIsTheLeast) {
  const MemoryNeeds needs{
      .activations = 30'000'000, .page = 1'000'000, .state = 5'000'000, .max_batch = 4, .context_length = 4096};
  const auto plan = plan_memory(needs, 50'000'000);
  ASSERT_FALSE(plan);
  EXPECT_EQ(
      plan.error().message(),
      "a memory budget of 50 MB is too small: 67 MB are the least for 4 requests at once, with room for 512 tokens");
  EXPECT_TRUE(plan_memory(needs, 67'000'000));
}

TEST(MemoryPlan, ThePagesDoNotDependOnTheDeclaredContext) {
  MemoryNeeds needs{.activations = 30'000'000, .page = 700'000, .max_batch = 16, .context_length = 4096};
  const int64_t pages = plan_memory(needs, 4'000'000'000).value().pages;
  needs.context_length = 131072;
  EXPECT_EQ(plan_memory(needs, 4'000'000'000).value().pages, pages);
}

}  // namespace
}  // namespace tempo9::engine
