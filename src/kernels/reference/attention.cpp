// The KV cache, whose pages hold f32 values whatever its type, and attention over them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/reference/reference.h"
#include "quant/quant.h"

namespace tempo9::kernels::reference {
namespace {

using tensor::kPageTokens;

// K or V of one layer as one sequence sees it.
struct SequenceCache {
  std::byte* pages;
  size_t page_bytes;
  std::span<const int32_t> table;
  int64_t token_floats;  // all heads of one token

  float* token(int64_t slot) const {
    const int32_t page = table[static_cast<size_t>(slot / kPageTokens)];
    T9_CHECK(page >= 0);
    std::byte* base = pages + static_cast<size_t>(page) * page_bytes;
    return reinterpret_cast<float*>(base) + slot % kPageTokens * token_floats;
  }
};

struct LayerCache {
  SequenceCache k;
  SequenceCache v;
};

LayerCache cache_of(const tensor::KvView& kv, int32_t kv_layer, const tensor::KvLayerSpec& layer, int32_t sequence) {
  const tensor::KvLayerView& view = kv.layers[static_cast<size_t>(kv_layer)];
  T9_CHECK(view.k_page_bytes >= k_page_bytes(layer) && view.v_page_bytes >= v_page_bytes(layer));
  const std::span<const int32_t> table = kv.table(view.pool, sequence).pages;
  return {.k = {view.k, view.k_page_bytes, table, layer.n_kv_heads * layer.k_head_dim},
          .v = {view.v, view.v_page_bytes, table, layer.n_kv_heads * layer.v_head_dim}};
}

// One KV head's share of each token.
struct HeadCache {
  const SequenceCache& cache;
  int64_t head;
  int64_t dim;

  const float* at(int64_t slot) const { return cache.token(slot) + head * dim; }
};

// What a query head gives each slot of `slots`: exp(score - highest score), and their sum.
struct Weights {
  std::vector<double> of_slot;
  double sum = 0.0;
};

Weights attention_weights(const tensor::Attention& op, const HeadCache& k, tensor::IndexRange slots, const float* q,
                          const float* sink) {
  Weights weights;
  double highest = sink != nullptr ? static_cast<double>(*sink) : -std::numeric_limits<double>::infinity();
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) {
    double score = static_cast<double>(op.scale) * static_cast<double>(dot(q, k.at(slot), k.dim));
    if (op.softcap > 0.0f) {
      const double cap = static_cast<double>(op.softcap);
      score = cap * std::tanh(score / cap);
    }
    weights.of_slot.push_back(score);
    highest = std::max(highest, score);
  }
  if (sink != nullptr) weights.sum = std::exp(static_cast<double>(*sink) - highest);
  for (double& weight : weights.of_slot) {
    weight = std::exp(weight - highest);
    weights.sum += weight;
  }
  return weights;
}

void weighted_mean(const Weights& weights, const HeadCache& v, tensor::IndexRange slots, float* out) {
  std::vector<double> total(static_cast<size_t>(v.dim), 0.0);
  for (int64_t slot = slots.begin; slot < slots.end; ++slot) {
    const double weight = weights.of_slot[static_cast<size_t>(slot - slots.begin)];
    const float* value = v.at(slot);
    for (size_t c = 0; c < total.size(); ++c) total[c] += weight * static_cast<double>(value[c]);
  }
  for (size_t c = 0; c < total.size(); ++c) out[c] = static_cast<float>(total[c] / weights.sum);
}

// As Q8_0 with 32 values, or the rest of a head, to a scale: see kernels/attention.h.
void store_q8(std::span<const float> head, float* out) {
  for (; !head.empty(); head = head.subspan(std::min<size_t>(32, head.size()))) {
    const auto block = head.first(std::min<size_t>(32, head.size()));
    float greatest = 0.0f;
    for (const float x : block) greatest = std::max(greatest, std::fabs(x));
    const float d = quant::f16_to_f32(quant::f32_to_f16(greatest / 127.0f));
    for (const float x : block) {
      *out++ = d > 0.0f ? d * std::clamp(std::nearbyint(x * (1.0f / d)), -127.0f, 127.0f) : 0.0f;
    }
  }
}

// As values of the cache's type are.
void store(std::span<const float> values, int64_t head_dim, tensor::KvType type, float* out) {
  switch (type) {
    case tensor::KvType::kF32:
      std::ranges::copy(values, out);
      return;
    case tensor::KvType::kF16:
      for (size_t c = 0; c < values.size(); ++c) out[c] = quant::f16_to_f32(quant::f32_to_f16(values[c]));
      return;
    case tensor::KvType::kQ8_0:
      const auto dim = static_cast<size_t>(head_dim);
      for (size_t c = 0; c < values.size(); c += dim) store_q8(values.subspan(c, dim), out + c);
  }
}

size_t page_bytes(int64_t n_kv_heads, int64_t head_dim) {
  return static_cast<size_t>(kPageTokens * n_kv_heads * head_dim) * sizeof(float);
}

}  // namespace

size_t k_page_bytes(const tensor::KvLayerSpec& layer) { return page_bytes(layer.n_kv_heads, layer.k_head_dim); }
size_t v_page_bytes(const tensor::KvLayerSpec& layer) { return page_bytes(layer.n_kv_heads, layer.v_head_dim); }

void kv_write(const tensor::KvWrite& op, const tensor::KvLayerSpec& layer, const tensor::Batch& batch,
              MatView<const float> k, MatView<const float> v) {
  for (int64_t i = 0; i < batch.n_rows(); ++i) {
    const size_t row = static_cast<size_t>(i);
    const LayerCache cache = cache_of(batch.kv, op.kv_layer, layer, batch.sequences[row]);
    const tensor::KvType type = batch.kv.layers[static_cast<size_t>(op.kv_layer)].type;
    store(k.row_span(i), layer.k_head_dim, type, cache.k.token(batch.slots[row]));
    store(v.row_span(i), layer.v_head_dim, type, cache.v.token(batch.slots[row]));
  }
}

void attention(const tensor::Attention& op, const tensor::KvLayerSpec& layer, std::span<const float> sinks,
               const tensor::Batch& batch, MatView<const float> q, MatView<float> out) {
  for (int64_t i = 0; i < batch.n_rows(); ++i) {
    const size_t row = static_cast<size_t>(i);
    const LayerCache cache = cache_of(batch.kv, op.kv_layer, layer, batch.sequences[row]);
    const int64_t slot = batch.slots[row];
    const tensor::IndexRange visible{.begin = op.window > 0 ? std::max<int64_t>(0, slot - op.window + 1) : 0,
                                     .end = batch.visible_end(i)};
    for (int64_t head = 0; head < op.n_heads; ++head) {
      const int64_t kv_head = head * layer.n_kv_heads / op.n_heads;
      const HeadCache k{cache.k, kv_head, layer.k_head_dim}, v{cache.v, kv_head, layer.v_head_dim};
      const float* sink = sinks.empty() ? nullptr : &sinks[static_cast<size_t>(head)];
      const Weights weights = attention_weights(op, k, visible, q.row(i) + head * layer.k_head_dim, sink);
      weighted_mean(weights, v, visible, out.row(i) + head * layer.v_head_dim);
    }
  }
}

}  // namespace tempo9::kernels::reference
