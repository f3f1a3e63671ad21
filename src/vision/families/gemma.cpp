// Gemma 3's SigLIP and Gemma 4's encoder (spec models 12.5 and 12.7). The result is the mean over squares of patches,
// and one linear layer.
#include <fmt/format.h>

#include <cmath>

#include "vision/families.h"

namespace tempo9::vision {
namespace {

constexpr double kGemma4RopeBase = 100.0;
constexpr int64_t kGemma4Tokens = 280;
constexpr int64_t kMaxPositions = 1 << 20;

}  // namespace

Result<void> read_gemma3(ProjectorReader& reader, TowerSpec& spec) {
  T9_TRY(image_size, reader.keys().read_count("vision.image_size", 1 << 14));
  T9_TRY(pool, reader.keys().find_count("vision.projector.scale_factor", 4, 64));
  spec.side = image_size / spec.patch;
  spec.merge = pool;
  if (image_size % spec.patch != 0 || pool < 1 || spec.side % pool != 0) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("an image of {} pixels a side is not whole pools of {} patches of "
                            "{} pixels",
                            image_size, pool, spec.patch));
  }
  spec.resize = ResizeRule::kStretch;
  spec.filter = Filter::kBilinear;
  spec.activation = Activation::kGeluTanh;
  spec.patch_embed = reader.patch_embed(spec);
  spec.positions = PositionTable::kInterpolated;  // the grid is always the table's own
  spec.position_rows = spec.side;
  spec.position_table = reader.values("v.position_embd.weight", {spec.width, spec.side * spec.side});
  for (size_t i = 0; i < spec.blocks.size(); ++i) {
    const std::string prefix = fmt::format("v.blk.{}.", i);
    Block& block = spec.blocks[i];
    block.norm1 = reader.norm(prefix + "ln1", spec.width, true);
    reader.read_attention(spec, prefix, block);
    block.norm2 = reader.norm(prefix + "ln2", spec.width, true);
    block.up = reader.linear(prefix + "ffn_up", spec.width, spec.ffn_width);
    block.down = reader.linear(prefix + "ffn_down", spec.ffn_width, spec.width);
  }
  spec.head = Head::kPoolLinear;
  spec.has_post_norm = true;
  spec.post_norm = reader.norm("v.post_ln", spec.width, true);
  spec.pool_norm = reader.norm("mm.soft_emb_norm", spec.width, false);
  spec.fc2 = reader.transposed_linear("mm.input_projection.weight", spec.width, reader.out_width());
  return {};
}

Result<void> read_gemma4v(ProjectorReader& reader, TowerSpec& spec) {
  T9_TRY(pool, reader.keys().find_count("vision.projector.scale_factor", 3, 64));
  spec.resize = ResizeRule::kBudget;
  spec.merge = std::max<int64_t>(1, pool);
  spec.max_tokens = kGemma4Tokens;
  // Pixels are to lie in [-1, 1]: 2 x - 1 of what the file's mean and deviation give.
  for (size_t c = 0; c < 3; ++c) {
    spec.mean[c] += 0.5f * spec.std[c];
    spec.std[c] *= 0.5f;
  }
  spec.norm = NormKind::kRms;
  spec.norms_heads = true;
  spec.norms_branches = true;
  spec.activation = Activation::kGeluTanh;
  spec.attention_scale = 1.0f;
  spec.rotary = rotary_within_halves(spec.head_dim(), kGemma4RopeBase);
  spec.patch_embed = reader.patch_embed(spec);
  spec.positions = PositionTable::kPerAxis;
  spec.position_rows = std::min(reader.n_rows("v.position_embd.weight"), kMaxPositions);
  spec.position_table = reader.values("v.position_embd.weight", {spec.width, spec.position_rows, 2});
  for (size_t i = 0; i < spec.blocks.size(); ++i) {
    const std::string prefix = fmt::format("v.blk.{}.", i);
    Block& block = spec.blocks[i];
    block.norm1 = reader.norm(prefix + "ln1", spec.width, false);
    reader.read_attention(spec, prefix, block);
    block.q_norm = reader.norm(prefix + "attn_q_norm", spec.head_dim(), false);
    block.k_norm = reader.norm(prefix + "attn_k_norm", spec.head_dim(), false);
    block.after_attention = reader.norm(prefix + "attn_post_norm", spec.width, false);
    block.norm2 = reader.norm(prefix + "ln2", spec.width, false);
    block.gate = reader.linear(prefix + "ffn_gate", spec.width, spec.ffn_width);
    block.up = reader.linear(prefix + "ffn_up", spec.width, spec.ffn_width);
    block.down = reader.linear(prefix + "ffn_down", spec.ffn_width, spec.width);
    block.after_ffn = reader.norm(prefix + "ffn_post_norm", spec.width, false);
    if (const auto scale = reader.values(prefix + "out_scale.weight", {1}, true); !scale.empty()) {
      block.scale = scale[0];
    }
  }
  spec.head = Head::kPoolLinear;
  spec.pool_scale = static_cast<float>(std::sqrt(static_cast<double>(spec.width)));
  spec.pool_bias = reader.values("v.std_bias", {spec.width}, true);
  spec.pool_gain = reader.values("v.std_scale", {spec.width}, true);
  spec.fc2 = reader.linear("mm.input_projection", spec.width, reader.out_width());
  return {};
}

}  // namespace tempo9::vision
