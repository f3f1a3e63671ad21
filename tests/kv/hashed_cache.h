// A cache whose pages and states hold hashes of their texts, so that whatever mixes texts up is seen. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kv/cache.h"
#include "kv/memory_backend.h"

namespace tempo9::kv::testing {

using tensor::kNoPage;
using tensor::kPageTokens;
using Tokens = std::vector<int32_t>;

inline constexpr tensor::KvLayerSpec kFull{.n_kv_heads = 1, .k_head_dim = 1, .v_head_dim = 2, .window = 0};
inline constexpr tensor::KvLayerSpec kSliding{.n_kv_heads = 1, .k_head_dim = 2, .v_head_dim = 1, .window = 40};
inline constexpr tensor::StateLayerSpec kState{.conv_floats = 3, .delta_floats = 5};

// Entry i is of all tokens up to and with index i; exact in a float.
inline std::vector<float> hashes_of(const Tokens& tokens) {
  std::vector<float> hashes;
  uint32_t hash = 7;
  for (const int32_t token : tokens) {
    hash = hash * 31 + static_cast<uint32_t>(token);
    hashes.push_back(static_cast<float>(hash % (1u << 24)));
  }
  return hashes;
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
    const std::vector<float> hashes = hashes_of(tokens);
    for_each_slot(id, begin, end, /*all=*/true, [&](int64_t slot, float* values, int64_t n) {
      std::fill_n(values, n, hashes[static_cast<size_t>(slot)]);
    });
    if (!has_state_) return;
    float* state = cache_->states({&id, 1}).state(0, 0);
    std::fill_n(state, kState.floats(), hashes[static_cast<size_t>(end - 1)]);
  }

  // What a row at slot `n_tokens` sees is what it should be.
  void check(SequenceId id, const Tokens& tokens, int64_t n_tokens) {
    const std::vector<float> hashes = hashes_of(tokens);
    for_each_slot(id, 0, n_tokens, /*all=*/false, [&](int64_t slot, float* values, int64_t n) {
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(values[i], hashes[static_cast<size_t>(slot)]) << "slot " << slot;
    });
    if (!has_state_ || n_tokens == 0) return;
    const float* state = cache_->states({&id, 1}).state(0, 0);
    for (int64_t i = 0; i < kState.floats(); ++i) ASSERT_EQ(state[i], hashes[static_cast<size_t>(n_tokens - 1)]);
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

  tempo9::testing::MemoryBackend backend_;
  const std::vector<tensor::KvLayerSpec> layers_;
  const bool has_state_;
  std::unique_ptr<Cache> cache_;
};

// A sequence that starts with what is there, on disk too, and computes the rest of `tokens`. Gives its handle and how
// much was there.
inline std::pair<SequenceId, int64_t> run(Writer& writer, const Tokens& tokens) {
  Cache& cache = writer.cache();
  const SequenceId id = cache.add_sequence().value();
  cache.reuse(id, tokens);
  cache.fetch(id, tokens);
  if (cache.is_fetching(id)) cache.settle_disk();
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

inline Tokens counting(int64_t n, int32_t first = 0) {
  Tokens tokens(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = first + static_cast<int32_t>(i);
  return tokens;
}

inline Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tempo9::kv::testing
