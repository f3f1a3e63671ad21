// A backend that only gives memory: pages of f32 rows for both its types, K of a token at token * k_row_floats. For
// tests of the cache.
#pragma once

#include <array>

#include "backends/backend.h"

namespace tempo9::testing {

class MemoryBackend : public backends::Backend {
 public:
  std::string name() const override { return "memory"; }
  std::string description() const override { return "memory"; }
  Result<Buffer> reserve(size_t bytes) override { return Buffer::reserve(bytes); }
  std::span<const tensor::KvType> kv_types() const override { return kTypes; }
  backends::KvPageBytes kv_page_bytes(const tensor::KvLayerSpec& layer, tensor::KvType) const override {
    const auto bytes = [&](int64_t head_dim) {
      return static_cast<size_t>(tensor::kPageTokens * layer.n_kv_heads * head_dim) * sizeof(float);
    };
    return {.k = bytes(layer.k_head_dim), .v = bytes(layer.v_head_dim)};
  }
  Result<std::unique_ptr<backends::Executable>> compile(const tensor::Program&, std::span<const tensor::WeightView>,
                                                        const backends::CompileOptions&) override {
    return fail(ErrorCode::kUnsupported, "memory only");
  }

 private:
  static constexpr std::array kTypes{tensor::KvType::kF32, tensor::KvType::kQ8_0};
};

}  // namespace tempo9::testing
