#include "vision/projector_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "quant/quant.h"

namespace tempo9::vision {
namespace {

// Real towers stay below a tenth of these.
constexpr int64_t kMaxWidth = 1 << 16;
constexpr int64_t kMaxBlocks = 1024;
constexpr int64_t kMaxPatch = 256;

std::string shape_text(const gguf::TensorInfo& info) {
  return fmt::format("[{}]", fmt::join(info.ne, info.ne + std::max(info.n_dims, 1), ", "));
}

Result<std::array<float, 3>> read_rgb(const models::Keys& keys, const char* key) {
  T9_TRY(values, keys.metadata().read_floats(keys.full_name(key)));
  if (values.size() != 3) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} has {} values, must have 3", keys.full_name(key), values.size()));
  }
  std::array<float, 3> rgb{};
  for (size_t i = 0; i < 3; ++i) {
    rgb[i] = static_cast<float>(values[i]);
    if (!std::isfinite(rgb[i]) || rgb[i] < 0.0f) {
      return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} holds {}", keys.full_name(key), rgb[i]));
    }
  }
  return rgb;
}

}  // namespace

Result<void> ProjectorReader::read_common(TowerSpec& spec) {
  T9_TRY(patch, keys_.read_count("vision.patch_size", kMaxPatch));
  T9_TRY(width, keys_.read_count("vision.embedding_length", kMaxWidth));
  T9_TRY(ffn_width, keys_.find_count("vision.feed_forward_length", 0, kMaxWidth));
  T9_TRY(n_blocks, keys_.read_count("vision.block_count", kMaxBlocks));
  T9_TRY(n_heads, keys_.read_count("vision.attention.head_count", kMaxWidth));
  T9_TRY(out_width, keys_.read_count("vision.projection_dim", kMaxWidth));
  T9_TRY(eps, keys_.read_positive("vision.attention.layer_norm_epsilon"));
  T9_TRY(mean, read_rgb(keys_, "vision.image_mean"));
  T9_TRY(std, read_rgb(keys_, "vision.image_std"));
  if (width % n_heads != 0 || width / n_heads % 4 != 0) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("a width of {} over {} heads gives no heads of a multiple of 4", width, n_heads));
  }
  if (*std::ranges::min_element(std) <= 0.0f) {
    return fail(ErrorCode::kInvalidInput, "metadata clip.vision.image_std holds 0");
  }
  spec.patch = patch;
  spec.width = width;
  // Old files have 0: the size is that of the tensor.
  spec.ffn_width = ffn_width > 0 ? ffn_width : n_rows("v.blk.0.ffn_up.weight");
  spec.blocks.resize(static_cast<size_t>(n_blocks));
  spec.n_heads = n_heads;
  spec.eps = static_cast<float>(eps);
  spec.mean = mean;
  spec.std = std;
  spec.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim())));
  out_width_ = out_width;
  return {};
}

Linear ProjectorReader::linear(const std::string& name, int64_t cols, int64_t rows) {
  Linear linear{.name = name + ".weight", .weight = {}, .bias = {}};
  const gguf::TensorInfo* info = require(linear.name, {cols, rows});
  if (info == nullptr) return linear;
  linear.weight = file_.view(*info);
  linear.bias = values(name + ".bias", {rows}, true);
  linear.input_min = scalar(name + ".input_min", linear.input_min);
  linear.input_max = scalar(name + ".input_max", linear.input_max);
  linear.output_min = scalar(name + ".output_min", linear.output_min);
  linear.output_max = scalar(name + ".output_max", linear.output_max);
  return linear;
}

Linear ProjectorReader::transposed_linear(const std::string& tensor, int64_t cols, int64_t rows) {
  Linear linear{.name = tensor, .weight = {}, .bias = {}};
  const std::vector<float> stored = values(tensor, {rows, cols});
  if (stored.empty()) return linear;
  std::vector<float> turned(stored.size());
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      turned[static_cast<size_t>(r * cols + c)] = stored[static_cast<size_t>(c * rows + r)];
    }
  }
  linear.weight = own(std::move(turned), cols, rows);
  return linear;
}

Linear ProjectorReader::patch_embed(const TowerSpec& spec) {
  const std::string name = "v.patch_embd.weight";
  Linear linear{.name = name, .weight = {}, .bias = {}};
  std::vector<float> kernel = values(name, {spec.patch, spec.patch, 3, spec.width});
  const std::vector<float> second = values(name + ".1", {spec.patch, spec.patch, 3, spec.width}, true);
  if (kernel.empty()) return linear;
  for (size_t i = 0; i < second.size(); ++i) kernel[i] += second[i];
  linear.weight = own(std::move(kernel), spec.patch_values(), spec.width);
  linear.bias = values("v.patch_embd.bias", {spec.width}, true);
  return linear;
}

Norm ProjectorReader::norm(const std::string& name, int64_t n, bool has_bias) {
  Norm norm{.weight = values(name + ".weight", {n}), .bias = {}};
  if (has_bias) norm.bias = values(name + ".bias", {n});
  return norm;
}

void ProjectorReader::read_attention(const TowerSpec& spec, const std::string& prefix, Block& block) {
  if (has(prefix + "attn_qkv.weight")) {
    block.qkv.push_back(linear(prefix + "attn_qkv", spec.width, 3 * spec.width));
  } else {
    for (const char* part : {"attn_q", "attn_k", "attn_v"}) {
      block.qkv.push_back(linear(prefix + part, spec.width, spec.width));
    }
  }
  block.out = linear(prefix + "attn_out", spec.width, spec.width);
}

int64_t ProjectorReader::n_rows(const std::string& name) const {
  const gguf::TensorInfo* info = file_.find_tensor(name);
  return info == nullptr ? 0 : info->ne[1];
}

void ProjectorReader::set_failure(ErrorCode code, std::string message) {
  if (!failure_) failure_.emplace(code, std::move(message));
}

Result<void> ProjectorReader::status() const {
  if (failure_) return fail(*failure_);
  return {};
}

const gguf::TensorInfo* ProjectorReader::require(const std::string& name, std::initializer_list<int64_t> ne) {
  if (failure_) return nullptr;
  const gguf::TensorInfo* info = file_.find_tensor(name);
  if (info == nullptr) {
    set_failure(ErrorCode::kInvalidInput, fmt::format("tensor {} is missing", name));
    return nullptr;
  }
  // Dimensions of 1 at the end may be left out.
  int64_t wanted[4] = {1, 1, 1, 1};
  std::ranges::copy(ne, wanted);
  if (!std::ranges::equal(info->ne, wanted)) {
    set_failure(ErrorCode::kInvalidInput, fmt::format("tensor {}: has dimensions {}, must have [{}]", name,
                                                      shape_text(*info), fmt::join(ne, ", ")));
    return nullptr;
  }
  const auto usable = quant::check_weight_type(name, static_cast<uint32_t>(info->dtype));
  if (!usable || quant::find_type(info->dtype) == nullptr) {
    set_failure(ErrorCode::kUnsupported, usable ? fmt::format("tensor {}: has type {}, which no tower uses", name,
                                                              tensor::dtype_name(info->dtype))
                                                : usable.error().message());
    return nullptr;
  }
  return info;
}

std::vector<float> ProjectorReader::values(const std::string& name, std::initializer_list<int64_t> ne,
                                           bool is_optional) {
  if (is_optional && !has(name)) return {};
  const gguf::TensorInfo* info = require(name, ne);
  if (info == nullptr) return {};
  std::vector<float> floats = decode(*info);
  if (!std::ranges::all_of(floats, [](float x) { return std::isfinite(x); })) {
    set_failure(ErrorCode::kInvalidInput, fmt::format("tensor {}: holds a value that is not finite", name));
    return {};
  }
  return floats;
}

float ProjectorReader::scalar(const std::string& name, float fallback) {
  const std::vector<float> stored = values(name, {1}, true);
  return stored.empty() ? fallback : stored[0];
}

std::vector<float> ProjectorReader::decode(const gguf::TensorInfo& info) const {
  std::vector<float> floats(static_cast<size_t>(info.elements()));
  quant::find_type(info.dtype)->decode(file_.view(info).data, floats.data(), info.elements());
  return floats;
}

tensor::WeightView ProjectorReader::own(std::vector<float> values, int64_t cols, int64_t rows) {
  owned_.push_back(std::make_unique<std::vector<float>>(std::move(values)));
  return {.dtype = tensor::DType::kF32,
          .cols = cols,
          .rows = rows,
          .data = reinterpret_cast<const std::byte*>(owned_.back()->data()),
          .row_bytes = static_cast<size_t>(cols) * sizeof(float)};
}

std::vector<RotaryPair> rotary_across_head(int64_t head_dim, double base) {
  std::vector<RotaryPair> pairs;
  const int64_t half = head_dim / 2, quarter = head_dim / 4;
  for (int64_t i = 0; i < half; ++i) {
    const int64_t step = i < quarter ? i : i - quarter;
    pairs.push_back({.first = static_cast<int32_t>(i),
                     .second = static_cast<int32_t>(i + half),
                     .axis = i < quarter ? 0 : 1,
                     .frequency = std::pow(base, -2.0 * static_cast<double>(step) / static_cast<double>(half))});
  }
  return pairs;
}

std::vector<RotaryPair> rotary_within_halves(int64_t head_dim, double base) {
  std::vector<RotaryPair> pairs;
  const int64_t half = head_dim / 2, quarter = head_dim / 4;
  for (const int32_t axis : {1, 0}) {
    const int64_t begin = axis == 1 ? 0 : half;
    for (int64_t i = 0; i < quarter; ++i) {
      pairs.push_back({.first = static_cast<int32_t>(begin + i),
                       .second = static_cast<int32_t>(begin + i + quarter),
                       .axis = axis,
                       .frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(half))});
    }
  }
  return pairs;
}

}  // namespace tempo9::vision
