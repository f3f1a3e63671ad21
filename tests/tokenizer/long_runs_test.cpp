// Field report C01: long runs of one character class must cost linear time and constant stack.
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <string>
#include <vector>

#include "support/data.h"
#include "tokenizer/support.h"

namespace tempo9::tokenizer {
namespace {

// Unoptimised and sanitized builds check the stack and the result; only optimised ones are held to the time.
constexpr size_t kBytes = testing::kIsOptimized ? 1 << 20 : 1 << 14;
constexpr double kMaxSeconds = 1.0;
constexpr size_t kStackBytes = 256 << 10;

struct Encoding {
  const Tokenizer* tokenizer;
  std::string text;
  Result<testing::Ids> ids = testing::Ids();
  double cpu_seconds = 0;
};

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void* encode_run(void* argument) {
  Encoding& run = *static_cast<Encoding*>(argument);
  const double begin = thread_cpu_seconds();
  run.ids = run.tokenizer->encode(run.text, {.parse_special = true});
  run.cpu_seconds = thread_cpu_seconds() - begin;
  return nullptr;
}

void encode_on_small_stack(Encoding& run) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, encode_run, &run), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}

class LongRuns : public ::testing::TestWithParam<std::string> {};

TEST_P(LongRuns, AreBounded) {
  T9_NEED_DATA(GetParam());
  const auto tokenizer = testing::load(GetParam());
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string unit : {"a", "\n", " ", "=", "中", "1", "\u0301", "\u0301\u0323", "ab", "a ", "'", "Z",
                                 "\u0378", "<", "<|im_", "</s>", "\r\n ", "\xFF"}) {
    Encoding run{.tokenizer = tokenizer.get(), .text = ""};
    while (run.text.size() < kBytes) run.text += unit;
    encode_on_small_stack(run);
    ASSERT_TRUE(run.ids) << run.ids.error().message();
    EXPECT_FALSE(run.ids->empty());
    if (testing::kIsOptimized) {
      EXPECT_LT(run.cpu_seconds, kMaxSeconds) << unit;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongRuns, ::testing::ValuesIn(testing::vocabulary_files()), testing::name_of_vocabulary);

}  // namespace
}  // namespace tempo9::tokenizer
