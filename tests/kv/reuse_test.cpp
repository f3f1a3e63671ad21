// Reuse of pages and states, against what they should hold: every slot of every page that a row can see is a hash of
// the tokens up to it, and so is the recurrent state.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "kv/cache.h"
#include "kv/folder_support.h"
#include "kv/hashed_cache.h"

namespace tempo9::kv {
namespace {

using tensor::kPageTokens;
using testing::counting;
using testing::joined;
using testing::kFull;
using testing::kSliding;
using testing::run;
using testing::Tokens;
using testing::Writer;

const CacheOptions kOptions{.type = tensor::KvType::kF32,
                            .max_tokens = 32 * 100,
                            .max_sequences = 4,
                            .max_kept_pages = 50,
                            .max_kept_states = 6};

TEST(Reuse, IsExactToTheToken) {
  Writer writer({kFull}, false, kOptions);
  const Tokens text = counting(100);
  auto [first, none] = run(writer, text);
  EXPECT_EQ(none, 0);
  writer.cache().remove_and_keep(first, text);
  EXPECT_EQ(writer.cache().stats().pages_used, 0);
  EXPECT_EQ(writer.cache().stats().pages_kept, 4);
  for (const int64_t n_alike : {1, 31, 32, 33, 64, 96, 97, 100}) {
    const Tokens other = joined(counting(n_alike), counting(50, 1000));
    auto [id, n_reused] = run(writer, other);
    EXPECT_EQ(n_reused, n_alike);
    writer.cache().remove_sequence(id);
  }
}

TEST(Reuse, RunningSequencesShareTheirPages) {
  Writer writer({kFull, kSliding}, false, kOptions);
  const Tokens text = counting(96);
  const SequenceId first = run(writer, text).first;
  const auto [second, n_reused] = run(writer, joined(text, counting(10, 500)));
  EXPECT_EQ(n_reused, 96);
  EXPECT_EQ(writer.cache().stats().pages_used, 4);  // three shared, one of the second
  writer.cache().remove_sequence(first);
  writer.check(second, joined(text, counting(10, 500)), 106);
}

TEST(Reuse, FollowsASequenceThatIsStillRead) {
  Writer writer({kFull, kSliding}, false, kOptions);
  Cache& cache = writer.cache();
  const Tokens text = counting(320);
  const SequenceId leader = cache.add_sequence().value();
  const SequenceId follower = cache.add_sequence().value();
  ASSERT_TRUE(cache.grow(leader, 320));
  for (int64_t begin = 0; begin < 320; begin += 80) {
    writer.compute(leader, text, begin, begin + 80);
    cache.publish(leader, std::span(text).first(static_cast<size_t>(begin + 80)));
    cache.set_length(leader, begin + 80);
    EXPECT_EQ(cache.reuse(follower, text), (begin + 80) / 32 * 32);
    writer.check(follower, text, (begin + 80) / 32 * 32);
  }
  EXPECT_EQ(cache.stats().pages_used, 10);
}

TEST(Reuse, TwoThatComputedTheSamePageKeepOneCopy) {
  Writer writer({kFull}, false, kOptions);
  Cache& cache = writer.cache();
  const Tokens text = counting(64);
  const SequenceId a = cache.add_sequence().value();
  const SequenceId b = cache.add_sequence().value();
  for (const SequenceId id : {a, b}) {
    ASSERT_TRUE(cache.grow(id, 64));
    writer.compute(id, text, 0, 64);
  }
  EXPECT_EQ(cache.stats().pages_used, 4);
  for (const SequenceId id : {a, b}) cache.publish(id, text);
  EXPECT_EQ(cache.stats().pages_used, 2);
  writer.check(b, text, 64);
}

TEST(Reuse, RecurrentLayersGoBackToAKeptState) {
  Writer writer({kFull}, true, kOptions);
  Cache& cache = writer.cache();
  const Tokens text = counting(200);
  const SequenceId id = cache.add_sequence().value();
  ASSERT_TRUE(cache.grow(id, 200));
  writer.compute(id, text, 0, 64);
  cache.publish(id, std::span(text).first(64));
  cache.set_length(id, 64);
  cache.keep_state(id);
  writer.compute(id, text, 64, 200);
  cache.publish(id, text);
  cache.set_length(id, 200);
  cache.remove_and_keep(id, text);
  EXPECT_EQ(cache.stats().states_kept, 2);
  EXPECT_EQ(run(writer, joined(counting(150), counting(9, 900))).second, 64);
  EXPECT_EQ(run(writer, joined(text, counting(9, 900))).second, 200);
  EXPECT_EQ(run(writer, counting(199)).second, 64);
}

TEST(Reuse, OldPagesMakeRoomTheEndsOfTextsFirst) {
  CacheOptions options = kOptions;
  options.max_kept_pages = 10;
  Writer writer({kFull}, false, options);
  Cache& cache = writer.cache();
  for (int32_t i = 0; i < 5; ++i) {
    const Tokens text = joined(counting(64), counting(64, 1000 * (i + 1)));
    cache.remove_and_keep(run(writer, text).first, text);
    EXPECT_LE(cache.stats().pages_kept, 10);
  }
  EXPECT_EQ(cache.stats().pages_kept, 10);
  EXPECT_EQ(cache.stats().evictions, 2u);
  EXPECT_EQ(run(writer, joined(counting(64), counting(64, 1000))).second, 64);  // the first one's end is gone
}

TEST(Reuse, KeptPagesAreNeverInTheWay) {
  CacheOptions options = kOptions;
  options.max_kept_pages = 100;
  Writer writer({kFull, kSliding}, false, options);
  Cache& cache = writer.cache();
  const Tokens text = counting(32 * 90);
  cache.remove_and_keep(run(writer, text).first, text);
  EXPECT_TRUE(cache.has_room(32 * 100));
  const Tokens other = counting(32 * 100, 100000);
  const auto [id, n_reused] = run(writer, other);
  EXPECT_EQ(n_reused, 0);
  EXPECT_EQ(cache.stats().pages_used, 100);
}

TEST(Reuse, CanBeTurnedOff) {
  CacheOptions options = kOptions;
  options.max_kept_pages = 0;
  Writer writer({kFull}, false, options);
  const Tokens text = counting(100);
  writer.cache().remove_and_keep(run(writer, text).first, text);
  EXPECT_EQ(writer.cache().stats().pages_kept, 0);
  EXPECT_EQ(run(writer, text).second, 0);
}

TEST(Reuse, SaysWhereATextLeavesWhatIsKept) {
  using Reason = Difference::Reason;
  for (const bool has_disk : {false, true}) {
    const testing::TempFolder temp;
    CacheOptions options = kOptions;
    options.max_kept_pages = 12;
    if (has_disk) options.disk = {.root = temp.path(), .min_free_bytes = 0, .identity = "a", .min_segment_bytes = 0};
    Writer writer({kFull}, false, options);
    Cache& cache = writer.cache();
    const auto expect = [&](const Tokens& text, Reason reason, int64_t n_common) {
      const Difference difference = cache.explain(text);
      EXPECT_EQ(difference.reason, reason);
      EXPECT_EQ(difference.n_common, n_common);
    };
    expect(counting(100), Reason::kNothingAlike, 0);
    const Tokens text = counting(200);
    cache.remove_and_keep(run(writer, text).first, text);
    cache.settle_disk();
    expect(text, Reason::kNone, 200);
    expect(counting(150), Reason::kNone, 150);
    expect(counting(300), Reason::kStoredEnds, 200);
    expect(joined(counting(150), counting(9, 1000)), Reason::kDiffers, 150);
    expect(joined(counting(160), counting(9, 1000)), Reason::kDiffers, 160);
    expect(counting(9, 1000), Reason::kNothingAlike, 0);
    EXPECT_EQ(cache.explain(joined(counting(150), counting(9, 1000))).stored, 150);
    EXPECT_EQ(cache.explain(joined(counting(150), counting(9, 1000))).given, 1000);
    const Tokens other = counting(300, 5000);
    cache.remove_and_keep(run(writer, other).first, other);
    cache.settle_disk();
    EXPECT_GT(cache.stats().evictions, 0u);
    if (has_disk) {
      EXPECT_EQ(cache.explain(text).n_common, 192);
    } else {
      EXPECT_EQ(cache.explain(text).reason, Reason::kEvicted);
    }
  }
}

// ---- anything in any order

struct Running {
  Tokens tokens;
  int64_t n_computed = 0;
};

// With a folder the cache is also ended and made again on what it left on disk.
class RandomReuse {
 public:
  RandomReuse(uint32_t seed, std::vector<tensor::KvLayerSpec> layers, bool has_state, const std::string& folder)
      : random_(seed),
        layers_(std::move(layers)),
        has_state_(has_state),
        options_{.type = tensor::KvType::kF32,
                 .max_tokens = 32 * (20 + below(40)),
                 .max_sequences = 5,
                 .max_kept_pages = below(50),
                 .max_kept_states = below(5),
                 .disk = {.root = folder,
                          .cap_bytes = static_cast<uint64_t>(20'000 + below(100'000)),
                          .min_free_bytes = 0,
                          .identity = "a model",
                          .min_segment_bytes = static_cast<size_t>(below(3000)),
                          .max_segment_bytes = static_cast<size_t>(1000 + below(5000))}},
        writer_(std::make_unique<Writer>(layers_, has_state_, options_)) {}

  void step() {
    const int64_t action = below(10);
    if (below(300) == 0) return restart();
    if (action < 2 || running_.empty()) return start();
    const auto chosen = std::next(running_.begin(), below(std::ssize(running_)));
    if (action == 2) return end(chosen);
    advance(chosen->first, chosen->second);
  }

  void finish() {
    while (!running_.empty()) end(running_.begin());
    cache().settle_disk();
    EXPECT_EQ(cache().stats().pages_used, 0);
    EXPECT_EQ(cache().stats().states_used, 0);
    EXPECT_TRUE(cache().has_room(cache().stats().pages_total * kPageTokens));
  }
  uint64_t n_restored() { return n_restored_ + cache().stats().restored_pages; }

 private:
  Cache& cache() { return writer_->cache(); }
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  // Few texts and few branches, so that many begin alike.
  Tokens random_text() {
    Tokens tokens;
    const int64_t n = 1 + below(300);
    int32_t branch = static_cast<int32_t>(below(2));
    while (std::ssize(tokens) < n) {
      if (below(60) == 0) branch = branch * 2 + static_cast<int32_t>(below(2)) + 1;
      tokens.push_back(branch % 50);
    }
    return tokens;
  }

  // Sometimes all that was to be written is, sometimes it breaks off.
  void restart() {
    if (options_.disk.root.empty()) return;
    running_.clear();
    if (below(2) == 0) cache().settle_disk();
    n_restored_ += cache().stats().restored_pages;
    writer_.reset();
    writer_ = std::make_unique<Writer>(layers_, has_state_, options_);
  }

  void start() {
    const auto id = cache().add_sequence();
    ASSERT_EQ(id.has_value(), running_.size() < 5);
    if (!id) return;
    Running sequence{.tokens = random_text()};
    sequence.n_computed = cache().reuse(*id, sequence.tokens);
    cache().fetch(*id, sequence.tokens);
    if (below(3) > 0) cache().settle_disk();
    writer_->check(*id, sequence.tokens, sequence.n_computed);
    running_[id->value] = std::move(sequence);
  }

  void end(std::map<int32_t, Running>::iterator chosen) {
    const Tokens computed(chosen->second.tokens.begin(), chosen->second.tokens.begin() + chosen->second.n_computed);
    if (below(4) == 0) {
      cache().remove_sequence({chosen->first});
    } else {
      cache().remove_and_keep({chosen->first}, computed);
    }
    running_.erase(chosen);
  }

  void advance(int32_t handle, Running& sequence) {
    const SequenceId id{handle};
    cache().poll_disk();
    if (below(3) == 0) {
      const int64_t n = cache().reuse(id, sequence.tokens);
      ASSERT_GE(n, sequence.n_computed);
      sequence.n_computed = n;
    }
    const int64_t end = std::min(sequence.n_computed + 1 + below(70), std::ssize(sequence.tokens));
    if (cache().grow(id, end)) {
      writer_->compute(id, sequence.tokens, sequence.n_computed, end);
      cache().publish(id, std::span(sequence.tokens).first(static_cast<size_t>(end)));
      cache().set_length(id, end);
      if (end % kPageTokens == 0) cache().keep_state(id);
      sequence.n_computed = end;
    }
    writer_->check(id, sequence.tokens, sequence.n_computed);
  }

  std::mt19937 random_;
  const std::vector<tensor::KvLayerSpec> layers_;
  const bool has_state_;
  const CacheOptions options_;
  std::unique_ptr<Writer> writer_;
  std::map<int32_t, Running> running_;
  uint64_t n_restored_ = 0;
};

// 1e5 operations in all: those in memory, and those with a disk cache and restarts.
TEST(Reuse, RandomOperationsNeverMixTexts) {
  const std::vector<std::vector<tensor::KvLayerSpec>> kinds = {{kFull}, {kFull, kSliding}, {kSliding}};
  uint64_t n_restored = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const testing::TempFolder temp;
    RandomReuse test(seed, kinds[seed % kinds.size()], seed % 2 == 1, seed % 4 < 2 ? "" : temp.path());
    for (int i = 0; i < 1000; ++i) {
      test.step();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    test.finish();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
    n_restored += test.n_restored();
  }
  EXPECT_GT(n_restored, 100u);
}

}  // namespace
}  // namespace tempo9::kv
