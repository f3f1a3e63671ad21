// What attention sees of the KV cache: page tables over per-layer pools. Who fills the tables is kv/'s business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tempo9::tensor {

// Tokens of one page, which is also one key tile of attention (spec performance section 6).
inline constexpr int64_t kPageTokens = 32;

enum class KvType : uint8_t { kF32, kF16, kQ8_0 };

// K and V of one attention layer. Page p of this layer is the `k_page_bytes` bytes at k + p * k_page_bytes, V alike.
// What lies inside a page is the backend's own format: see Backend::kv_page_bytes.
struct KvLayerView {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  size_t k_page_bytes = 0;
  size_t v_page_bytes = 0;
  KvType type = KvType::kF16;
  int32_t pool = 0;  // layers that keep the same tokens (all full layers; all sliding ones) share a pool's tables
};

// Pages of one sequence in one pool: entry i holds the sequence's tokens [32 i, 32 i + 32), or is kNoPage where a
// sliding window has given the page back.
inline constexpr int32_t kNoPage = -1;
struct PageTable {
  std::span<const int32_t> pages;
};

struct KvView {
  std::span<const KvLayerView> layers;  // indexed by the ops' kv_layer
  std::span<const PageTable> tables;    // indexed by pool * n_sequences + sequence
  int32_t n_sequences = 0;

  const PageTable& table(int32_t pool, int32_t sequence) const {
    return tables[static_cast<size_t>(pool) * static_cast<size_t>(n_sequences) + static_cast<size_t>(sequence)];
  }
};

// Recurrent state: of state layer l, sequence s of the batch owns the floats() floats at state(l, s). The batch's rows
// advance it.
//
// The rows of a sequence with a `before` are on trial: some may be taken back. Its state is read there, and stays as it
// was; only state(l, s) is advanced. Executable::replay then advances a state by a part of the rows.
struct StateView {
  std::span<float* const> states;  // indexed by layer * n_sequences + sequence
  int32_t n_sequences = 0;
  std::span<const float* const> before = {};  // by the same index, null where rows are not on trial; may be empty

  float* state(int32_t layer, int32_t sequence) const { return states[index(layer, sequence)]; }
  const float* state_before(int32_t layer, int32_t sequence) const {
    return before.empty() ? nullptr : before[index(layer, sequence)];
  }
  bool is_on_trial(int32_t sequence) const { return !before.empty() && state_before(0, sequence) != nullptr; }

 private:
  size_t index(int32_t layer, int32_t sequence) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(n_sequences) + static_cast<size_t>(sequence);
  }
};

}  // namespace tempo9::tensor
