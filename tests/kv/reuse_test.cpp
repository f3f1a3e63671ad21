// Reuse of pages and states, against what they should hold: every slot of every page that a row can see is a hash of
// the tokens up to it, and so is the recurrent state.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "kv/cache.h"
#include "kv/memory_backend.h"

namespace tempo9::kv {
namespace {

using tensor::kNoPage;
using tensor::kPageTokens;
using Tokens = std::vector<int32_t>;

constexpr tensor::KvLayerSpec kFull{.n_kv_heads = 1, .k_head_dim = 1, .v_head_dim = 2, .window = 0};
constexpr tensor::KvLayerSpec kSliding{.n_kv_heads = 1, .k_head_dim = 2, .v_head_dim = 1, .window = 40};
constexpr tensor::StateLayerSpec kState{.conv_floats = 3, .delta_floats = 5};

// Of all tokens up to and with index `last`; exact in a float.
float hash_of(const Tokens& tokens, int64_t last) {
  uint32_t hash = 7;
  for (int64_t i = 0; i <= last; ++i) hash = hash * 31 + static_cast<uint32_t>(tokens[static_cast<size_t>(i)]);
  return static_cast<float>(hash % (1u << 24));
}

// A cache, and the part of a model: it writes what a pass would.
class Writer {
 public:
  Writer(std::vector<tensor::KvLayerSpec> layers, bool has_state, const CacheOptions& options)
      : layers_(std::move(layers)), has_state_(has_state) {
    const std::vector<tensor::StateLayerSpec> states(has_state ? 1 : 0, kState);
    cache_ = Cache::create(backend_, layers_, states, options).value();
  }

  Cache& cache() { return *cache_; }

  // Computes tokens[begin, end) of a sequence.
  void compute(SequenceId id, const Tokens& tokens, int64_t begin, int64_t end) {
    for_each_slot(id, begin, end, /*all=*/true,
                  [&](int64_t slot, float* values, int64_t n) { std::fill_n(values, n, hash_of(tokens, slot)); });
    if (!has_state_) return;
    float* state = cache_->states({&id, 1}).state(0, 0);
    std::fill_n(state, kState.floats(), hash_of(tokens, end - 1));
  }

  // What a row at slot `n_tokens` sees is what it should be.
  void check(SequenceId id, const Tokens& tokens, int64_t n_tokens) {
    for_each_slot(id, 0, n_tokens, /*all=*/false, [&](int64_t slot, float* values, int64_t n) {
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(values[i], hash_of(tokens, slot)) << "slot " << slot;
    });
    if (!has_state_ || n_tokens == 0) return;
    const float* state = cache_->states({&id, 1}).state(0, 0);
    for (int64_t i = 0; i < kState.floats(); ++i) ASSERT_EQ(state[i], hash_of(tokens, n_tokens - 1));
  }

 private:
  // K and V of the slots [begin, end), all or only those that a row at slot `end` sees, layer by layer.
  void for_each_slot(SequenceId id, int64_t begin, int64_t end, bool all, auto&& visit) {
    const tensor::KvView view = cache_->view({&id, 1});
    for (size_t l = 0; l < layers_.size(); ++l) {
      const tensor::KvLayerView& layer = view.layers[l];
      const int64_t window = layers_[l].window;
      const int64_t first = window > 0 && !all ? std::max(begin, end - window + 1) : begin;
      for (int64_t slot = first; slot < end; ++slot) {
        const int32_t page = view.table(layer.pool, 0).pages[static_cast<size_t>(slot / kPageTokens)];
        ASSERT_NE(page, kNoPage) << "slot " << slot;
        const auto values = [&](std::byte* base, size_t page_bytes, int64_t n) {
          return reinterpret_cast<float*>(base + static_cast<size_t>(page) * page_bytes) + slot % kPageTokens * n;
        };
        visit(slot, values(layer.k, layer.k_page_bytes, layers_[l].k_head_dim), layers_[l].k_head_dim);
        visit(slot, values(layer.v, layer.v_page_bytes, layers_[l].v_head_dim), layers_[l].v_head_dim);
      }
    }
  }

  testing::MemoryBackend backend_;
  const std::vector<tensor::KvLayerSpec> layers_;
  const bool has_state_;
  std::unique_ptr<Cache> cache_;
};

// A sequence that starts with what is there and computes the rest of `tokens`. Gives its handle and how much was there.
std::pair<SequenceId, int64_t> run(Writer& writer, const Tokens& tokens) {
  Cache& cache = writer.cache();
  const SequenceId id = cache.add_sequence().value();
  const int64_t n_reused = cache.reuse(id, tokens);
  writer.check(id, tokens, n_reused);
  const int64_t n_tokens = std::ssize(tokens);
  EXPECT_TRUE(cache.grow(id, n_tokens).has_value());
  writer.compute(id, tokens, n_reused, n_tokens);
  cache.publish(id, tokens);
  cache.set_length(id, n_tokens);
  writer.check(id, tokens, n_tokens);
  return {id, n_reused};
}

Tokens counting(int64_t n, int32_t first = 0) {
  Tokens tokens(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = first + static_cast<int32_t>(i);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr CacheOptions kOptions{.type = tensor::KvType::kF32,
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

// ---- anything in any order

struct Running {
  Tokens tokens;
  int64_t n_computed = 0;
};

class RandomReuse {
 public:
  RandomReuse(uint32_t seed, std::vector<tensor::KvLayerSpec> layers, bool has_state)
      : random_(seed),
        writer_(std::move(layers), has_state,
                {.type = tensor::KvType::kF32,
                 .max_tokens = 32 * (20 + below(40)),
                 .max_sequences = 5,
                 .max_kept_pages = below(50),
                 .max_kept_states = below(5)}) {}

  void step() {
    const int64_t action = below(10);
    if (action < 2 || running_.empty()) return start();
    const auto chosen = std::next(running_.begin(), below(std::ssize(running_)));
    if (action == 2) return end(chosen);
    advance(chosen->first, chosen->second);
  }

  void finish() {
    while (!running_.empty()) end(running_.begin());
    EXPECT_EQ(cache().stats().pages_used, 0);
    EXPECT_EQ(cache().stats().states_used, 0);
    EXPECT_TRUE(cache().has_room(cache().stats().pages_total * kPageTokens));
  }

 private:
  Cache& cache() { return writer_.cache(); }
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

  void start() {
    const auto id = cache().add_sequence();
    ASSERT_EQ(id.has_value(), running_.size() < 5);
    if (!id) return;
    Running sequence{.tokens = random_text()};
    sequence.n_computed = cache().reuse(*id, sequence.tokens);
    writer_.check(*id, sequence.tokens, sequence.n_computed);
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
    if (below(3) == 0) {
      const int64_t n = cache().reuse(id, sequence.tokens);
      ASSERT_GE(n, sequence.n_computed);
      sequence.n_computed = n;
    }
    const int64_t end = std::min(sequence.n_computed + 1 + below(70), std::ssize(sequence.tokens));
    if (cache().grow(id, end)) {
      writer_.compute(id, sequence.tokens, sequence.n_computed, end);
      cache().publish(id, std::span(sequence.tokens).first(static_cast<size_t>(end)));
      cache().set_length(id, end);
      if (end % kPageTokens == 0) cache().keep_state(id);
      sequence.n_computed = end;
    }
    writer_.check(id, sequence.tokens, sequence.n_computed);
  }

  std::mt19937 random_;
  Writer writer_;
  std::map<int32_t, Running> running_;
};

TEST(Reuse, RandomOperationsNeverMixTexts) {
  const std::vector<std::vector<tensor::KvLayerSpec>> kinds = {{kFull}, {kFull, kSliding}, {kSliding}};
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomReuse test(seed, kinds[seed % kinds.size()], seed % 2 == 1);
    for (int i = 0; i < 300; ++i) {
      test.step();
      if (::testing::Test::HasFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    test.finish();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace tempo9::kv
