// Qwen2-VL, Qwen2.5-VL, Qwen3-VL and the models after it (spec models 12.2 to 12.4). Rows are in the order of tokens,
// merge x merge patches each; 2-D rope; the result is merged by two linear layers.
#include <fmt/format.h>

#include "vision/families.h"

namespace tempo9::vision {
namespace {

constexpr double kRopeBase = 10000.0;

// The limits that the published preprocessing has; they are not in the files.
struct PixelLimits {
  int64_t min;
  int64_t max;
};

Result<void> read_preprocessing(ProjectorReader& reader, PixelLimits published, TowerSpec& spec) {
  T9_TRY(merge, reader.keys().find_count("vision.spatial_merge_size", 2, 16));
  T9_TRY(min_pixels, reader.keys().find_count("vision.image_min_pixels", published.min, int64_t{1} << 28));
  T9_TRY(max_pixels, reader.keys().find_count("vision.image_max_pixels", published.max, int64_t{1} << 28));
  spec.resize = ResizeRule::kSmart;
  spec.merge = std::max<int64_t>(1, merge);
  spec.min_pixels = min_pixels;
  spec.max_pixels = max_pixels;
  if (max_pixels >= spec.patch * spec.merge * spec.patch * spec.merge && max_pixels >= min_pixels) return {};
  return fail(ErrorCode::kInvalidInput, fmt::format("metadata clip.vision.image_max_pixels is {}, less than one token "
                                                    "or than image_min_pixels",
                                                    max_pixels));
}

Result<void> read_activation(ProjectorReader& reader, TowerSpec& spec) {
  T9_TRY(gelu, reader.metadata().find_bool("clip.use_gelu"));
  T9_TRY(silu, reader.metadata().find_bool("clip.use_silu"));
  if (gelu.value_or(false) && silu.value_or(false)) {
    return fail(ErrorCode::kInvalidInput, "metadata clip.use_gelu and clip.use_silu are both set");
  }
  spec.activation = gelu.value_or(false)   ? Activation::kGeluTanh
                    : silu.value_or(false) ? Activation::kSilu
                                           : Activation::kGeluQuick;
  return {};
}

void read_ffn(ProjectorReader& reader, const TowerSpec& spec, const std::string& prefix, Block& block) {
  const bool is_gated = reader.has(prefix + "ffn_gate.weight");
  // Some old exports have the names of the two exchanged.
  const bool is_swapped = !is_gated && spec.width != spec.ffn_width &&
                          reader.n_rows(prefix + "ffn_up.weight") == spec.width &&
                          reader.n_rows(prefix + "ffn_down.weight") == spec.ffn_width;
  if (is_gated) block.gate = reader.linear(prefix + "ffn_gate", spec.width, spec.ffn_width);
  block.up = reader.linear(prefix + (is_swapped ? "ffn_down" : "ffn_up"), spec.width, spec.ffn_width);
  block.down = reader.linear(prefix + (is_swapped ? "ffn_up" : "ffn_down"), spec.ffn_width, spec.width);
}

// What all three have in common; `spec` says how they norm.
Result<void> read_qwen(ProjectorReader& reader, PixelLimits limits, TowerSpec& spec) {
  T9_TRY_VOID(read_preprocessing(reader, limits, spec));
  T9_TRY_VOID(read_activation(reader, spec));
  const bool has_bias = spec.norm == NormKind::kLayer;
  spec.rotary = rotary_across_head(spec.head_dim(), kRopeBase);
  spec.patch_embed = reader.patch_embed(spec);
  for (size_t i = 0; i < spec.blocks.size(); ++i) {
    const std::string prefix = fmt::format("v.blk.{}.", i);
    Block& block = spec.blocks[i];
    block.norm1 = reader.norm(prefix + "ln1", spec.width, has_bias);
    reader.read_attention(spec, prefix, block);
    block.norm2 = reader.norm(prefix + "ln2", spec.width, has_bias);
    read_ffn(reader, spec, prefix, block);
  }
  const int64_t merged = spec.width * spec.merge * spec.merge;
  spec.head = Head::kMergeMlp;
  spec.has_post_norm = true;
  spec.post_norm = reader.norm("v.post_ln", spec.width, has_bias);
  spec.fc1 = reader.linear("mm.0", merged, merged);
  spec.fc2 = reader.linear("mm.2", merged, reader.out_width());
  return {};
}

Result<void> read_deepstack(ProjectorReader& reader, TowerSpec& spec) {
  const std::string key = "clip.vision.is_deepstack_layers";
  if (!reader.metadata().contains(key)) return {};
  T9_TRY(flags, reader.metadata().read_bools(key));
  if (flags.size() != spec.blocks.size()) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} has {} values, must have {}", key, flags.size(), spec.blocks.size()));
  }
  const int64_t merged = spec.width * spec.merge * spec.merge;
  for (size_t i = 0; i < flags.size(); ++i) {
    if (!flags[i]) continue;
    const std::string name = fmt::format("v.deepstack.{}.", i);
    spec.deepstack.push_back({.block = static_cast<int64_t>(i),
                              .norm = reader.norm(name + "norm", merged, true),
                              .fc1 = reader.linear(name + "fc1", merged, merged),
                              .fc2 = reader.linear(name + "fc2", merged, reader.out_width())});
  }
  return {};
}

// A square table of positions, one row per cell.
Result<void> read_positions(ProjectorReader& reader, TowerSpec& spec) {
  const std::string name = "v.position_embd.weight";
  const int64_t n_rows = reader.n_rows(name);
  int64_t side = 0;
  while ((side + 1) * (side + 1) <= n_rows && side < 4096) ++side;
  if (n_rows > 0 && side * side != n_rows) {
    return fail(ErrorCode::kInvalidInput, fmt::format("tensor {}: {} rows are no square", name, n_rows));
  }
  spec.positions = PositionTable::kInterpolated;
  spec.position_rows = side;
  spec.position_table = reader.values(name, {spec.width, n_rows});
  return {};
}

constexpr PixelLimits kQwen2Limits{.min = 56 * 56, .max = 16384 * 28 * 28};
constexpr PixelLimits kQwen3Limits{.min = 256 * 256, .max = 4096 * 4096};

}  // namespace

Result<void> read_qwen2vl(ProjectorReader& reader, TowerSpec& spec) { return read_qwen(reader, kQwen2Limits, spec); }

Result<void> read_qwen25vl(ProjectorReader& reader, TowerSpec& spec) {
  spec.norm = NormKind::kRms;
  T9_TRY_VOID(read_qwen(reader, kQwen2Limits, spec));
  T9_TRY(period, reader.keys().read_count("vision.n_wa_pattern"));
  T9_TRY(window, reader.keys().find_count("vision.window_size", 112, 1 << 16));
  spec.window = window / spec.patch / spec.merge;
  if (spec.window < 1) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata clip.vision.window_size is {}, less than one token", window));
  }
  for (size_t i = 0; i < spec.blocks.size(); ++i) {
    spec.blocks[i].is_windowed = (static_cast<int64_t>(i) + 1) % period != 0;
  }
  return {};
}

Result<void> read_qwen3vl(ProjectorReader& reader, TowerSpec& spec) {
  T9_TRY_VOID(read_qwen(reader, kQwen3Limits, spec));
  T9_TRY_VOID(read_positions(reader, spec));
  return read_deepstack(reader, spec);
}

}  // namespace tempo9::vision
