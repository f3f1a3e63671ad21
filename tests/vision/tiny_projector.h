// Made-up projectors of every family, small enough for plain loops unless asked otherwise.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gguf/writer.h"
#include "quant/quant.h"
#include "vision/projector.h"

namespace tempo9::vision {

struct TinySizes {
  int64_t width = 32;
  int64_t ffn = 64;
  int64_t blocks = 2;
  int64_t heads = 2;
  int64_t out = 32;
  int64_t patch = 4;
  int64_t side = 8;  // of the table of positions
  std::vector<int64_t> deepstack = {0};
};

class TinyProjector {
 public:
  explicit TinyProjector(std::string type, TinySizes sizes = {}) : type_(std::move(type)), sizes_(std::move(sizes)) {
    add_metadata();
    if (type_ == "gemma3" || type_ == "gemma4v") {
      add_gemma();
    } else {
      add_qwen();
    }
  }

  std::vector<std::byte> bytes() const { return writer_.bytes(); }
  Result<void> write(const std::string& path) const { return writer_.write(path); }

 private:
  void set(const char* key, gguf::Scalar value) { writer_.add(key, gguf::MetaValue(std::move(value))); }
  void set_count(const char* key, int64_t value) { set(key, static_cast<uint32_t>(value)); }

  void add_metadata() {
    set("general.architecture", std::string("clip"));
    set("clip.projector_type", type_);
    set("clip.has_vision_encoder", true);
    set_count("clip.vision.patch_size", sizes_.patch);
    set_count("clip.vision.image_size", sizes_.patch * sizes_.side);
    set_count("clip.vision.embedding_length", sizes_.width);
    set_count("clip.vision.feed_forward_length", sizes_.ffn);
    set_count("clip.vision.block_count", sizes_.blocks);
    set_count("clip.vision.attention.head_count", sizes_.heads);
    set_count("clip.vision.projection_dim", sizes_.out);
    set("clip.vision.attention.layer_norm_epsilon", 1e-6f);
    writer_.add("clip.vision.image_mean", gguf::Array(std::vector<float>(3, type_ == "gemma4v" ? 0.0f : 0.5f)));
    writer_.add("clip.vision.image_std", gguf::Array(std::vector<float>(3, type_ == "gemma4v" ? 1.0f : 0.5f)));
    if (type_ == "qwen3vl_merger" || type_ == "gemma3") set("clip.use_gelu", true);
    if (type_ == "qwen2.5vl_merger") {
      set("clip.use_silu", true);
      set_count("clip.vision.n_wa_pattern", 2);
      set_count("clip.vision.window_size", sizes_.patch * 4);
    }
    if (type_ == "gemma4v") set_count("clip.vision.projector.scale_factor", 3);
    if (type_ == "gemma3") set_count("clip.vision.projector.scale_factor", 2);
    if (type_ == "qwen3vl_merger") {
      std::vector<bool> flags(static_cast<size_t>(sizes_.blocks));
      for (const int64_t block : sizes_.deepstack) flags[static_cast<size_t>(block)] = true;
      writer_.add("clip.vision.is_deepstack_layers", gguf::Array(flags));
    }
  }

  void tensor(const std::string& name, std::vector<int64_t> ne, float spread, float mean = 0.0f) {
    int64_t n = 1;
    for (const int64_t size : ne) n *= size;
    std::normal_distribution<float> normal(mean, spread);
    // Matrices are BF16, as published ones are.
    const bool is_matrix = ne.size() == 2;
    std::vector<std::byte> data(static_cast<size_t>(n) * (is_matrix ? 2 : 4));
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      const uint16_t bits = quant::f32_to_bf16(normal(random_));
      const float value = quant::bf16_to_f32(bits);
      std::memcpy(data.data() + i * (is_matrix ? 2 : 4), is_matrix ? static_cast<const void*>(&bits) : &value,
                  is_matrix ? 2 : 4);
    }
    writer_.add_tensor(name, is_matrix ? tensor::DType::kBF16 : tensor::DType::kF32, std::move(ne), std::move(data));
  }
  void linear(const std::string& name, int64_t cols, int64_t rows, bool has_bias = true) {
    tensor(name + ".weight", {cols, rows}, 1.0f / std::sqrt(static_cast<float>(cols)));
    if (has_bias) tensor(name + ".bias", {rows}, 0.1f);
  }
  void norm(const std::string& name, int64_t n, bool has_bias) {
    tensor(name + ".weight", {n}, 0.1f, 1.0f);
    if (has_bias) tensor(name + ".bias", {n}, 0.1f);
  }
  void patch_kernel(const char* name) {
    tensor(name, {sizes_.patch, sizes_.patch, 3, sizes_.width},
           1.0f / std::sqrt(3.0f * static_cast<float>(sizes_.patch * sizes_.patch)));
  }

  void add_qwen() {
    const bool is_25 = type_ == "qwen2.5vl_merger", is_3 = type_ == "qwen3vl_merger";
    const int64_t merged = 4 * sizes_.width;
    patch_kernel("v.patch_embd.weight");
    patch_kernel("v.patch_embd.weight.1");
    if (is_3) {
      tensor("v.patch_embd.bias", {sizes_.width}, 0.1f);
      tensor("v.position_embd.weight", {sizes_.width, sizes_.side * sizes_.side}, 0.5f);
    }
    for (int64_t i = 0; i < sizes_.blocks; ++i) {
      const std::string prefix = "v.blk." + std::to_string(i) + ".";
      norm(prefix + "ln1", sizes_.width, !is_25);
      norm(prefix + "ln2", sizes_.width, !is_25);
      if (is_3) linear(prefix + "attn_qkv", sizes_.width, 3 * sizes_.width);
      for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
        if (!is_3) linear(prefix + part, sizes_.width, sizes_.width);
      }
      linear(prefix + "attn_out", sizes_.width, sizes_.width);
      if (is_25) linear(prefix + "ffn_gate", sizes_.width, sizes_.ffn);
      linear(prefix + "ffn_up", sizes_.width, sizes_.ffn);
      linear(prefix + "ffn_down", sizes_.ffn, sizes_.width);
    }
    norm("v.post_ln", sizes_.width, !is_25);
    linear("mm.0", merged, merged);
    linear("mm.2", merged, sizes_.out);
    if (!is_3) return;
    for (const int64_t block : sizes_.deepstack) {
      const std::string prefix = "v.deepstack." + std::to_string(block) + ".";
      norm(prefix + "norm", merged, true);
      linear(prefix + "fc1", merged, merged);
      linear(prefix + "fc2", merged, sizes_.out);
    }
  }

  void add_gemma() {
    const bool is_4 = type_ == "gemma4v";
    patch_kernel("v.patch_embd.weight");
    if (is_4) {
      tensor("v.position_embd.weight", {sizes_.width, 512, 2}, 0.3f);
      tensor("v.std_bias", {sizes_.width}, 0.1f);
      tensor("v.std_scale", {sizes_.width}, 0.1f, 1.0f);
    } else {
      tensor("v.patch_embd.bias", {sizes_.width}, 0.1f);
      tensor("v.position_embd.weight", {sizes_.width, sizes_.side * sizes_.side}, 0.5f);
      norm("v.post_ln", sizes_.width, true);
      norm("mm.soft_emb_norm", sizes_.width, false);
    }
    for (int64_t i = 0; i < sizes_.blocks; ++i) {
      const std::string prefix = "v.blk." + std::to_string(i) + ".";
      for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_out"}) {
        linear(prefix + part, sizes_.width, sizes_.width, !is_4);
      }
      norm(prefix + "ln1", sizes_.width, !is_4);
      norm(prefix + "ln2", sizes_.width, !is_4);
      linear(prefix + "ffn_up", sizes_.width, sizes_.ffn, !is_4);
      linear(prefix + "ffn_down", sizes_.ffn, sizes_.width, !is_4);
      if (!is_4) continue;
      linear(prefix + "ffn_gate", sizes_.width, sizes_.ffn, false);
      norm(prefix + "attn_post_norm", sizes_.width, false);
      norm(prefix + "ffn_post_norm", sizes_.width, false);
      norm(prefix + "attn_q_norm", sizes_.width / sizes_.heads, false);
      norm(prefix + "attn_k_norm", sizes_.width / sizes_.heads, false);
      // Bounds that some values meet.
      for (const auto& [name, bound] : {std::pair{"ffn_up.input_min", -1.5f}, {"ffn_up.output_max", 1.0f}}) {
        tensor(prefix + name, {1}, 0.0f, bound);
      }
    }
    linear("mm.input_projection", is_4 ? sizes_.width : sizes_.out, is_4 ? sizes_.out : sizes_.width, false);
  }

  std::string type_;
  TinySizes sizes_;
  std::mt19937 random_{42};
  gguf::Writer writer_;
};

inline constexpr const char* kFamilyNames[] = {"qwen3vl_merger", "qwen2vl_merger", "qwen2.5vl_merger", "gemma3",
                                               "gemma4v"};

}  // namespace tempo9::vision
