// qwen35, qwen35moe: Qwen3.5, Qwen3.6 and Qwen3.8-27B, dense or with experts. Most layers are gated delta nets, which
// keep a state of fixed size instead of K and V; every few layers there is one of gated attention. A block at the end
// of the file drafts the token after next (spec models section 7). Norm weights come with the family's "+ 1" folded in.
#include <fmt/format.h>

#include <optional>

#include "models/experts.h"
#include "models/layers.h"
#include "models/list.h"
#include "models/rope.h"
#include "models/tensors.h"

namespace tempo9::models {
namespace {

using graph::Builder;
using graph::Node;
using graph::Weight;

constexpr tensor::Activation kActivation = tensor::Activation::kSilu;

struct Variant {
  std::string_view name;
  bool has_experts = false;
};

// Sizes of a gated delta net.
struct DeltaShape {
  int64_t kernel = 0;  // of the convolution
  int64_t n_k_heads = 0;
  int64_t n_v_heads = 0;
  int64_t head_dim = 0;  // of keys and values

  int64_t value_cols() const { return n_v_heads * head_dim; }
  int64_t conv_cols() const { return 2 * n_k_heads * head_dim + value_cols(); }
};

struct Params {
  DecoderParams common;            // all blocks of the file, those that draft included
  int64_t n_layers = 0;            // blocks of the main pass
  std::vector<bool> is_recurrent;  // per block
  DeltaShape delta;
  Builder::RopeSpec rope;
  ExpertParams experts;
  int64_t n_shared_ff = 0;  // width of the expert that sees all rows

  bool has_draft_block() const { return n_layers < common.n_layers(); }
};

// Which blocks are delta nets: stored as flags, or as the distance from one attention layer to the next. The blocks
// that draft never are.
Result<std::vector<bool>> read_recurrent_layers(const Keys& keys, const DecoderParams& common, int64_t n_layers) {
  constexpr std::string_view kFlags = "attention.recurrent_layers";
  std::vector<bool> flags;
  if (keys.metadata().contains(keys.full_name(kFlags))) {
    T9_TRY(stored, keys.metadata().read_bools(keys.full_name(kFlags)));
    if (std::ssize(stored) != common.n_layers()) {
      return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} has {} elements, the model has {} layers",
                                                        keys.full_name(kFlags), stored.size(), common.n_layers()));
    }
    flags = std::move(stored);
  } else {
    T9_TRY(interval, keys.find_count("full_attention_interval", 4));
    if (interval == 0) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("metadata {} is 0, must be 1 or more", keys.full_name("full_attention_interval")));
    }
    for (int64_t i = 0; i < common.n_layers(); ++i) flags.push_back((i + 1) % interval != 0);
  }
  for (int64_t i = 0; i < common.n_layers(); ++i) {
    const size_t index = static_cast<size_t>(i);
    if (i >= n_layers) flags[index] = false;
    if (flags[index] || common.layers[index].n_kv_heads > 0) continue;
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is 0 in layer {}, which has attention",
                                                      keys.full_name("attention.head_count_kv"), i));
  }
  return flags;
}

Result<DeltaShape> read_delta_shape(const Keys& keys) {
  constexpr int64_t kMaxKernel = 64;
  T9_TRY(kernel, keys.read_count("ssm.conv_kernel", kMaxKernel));
  T9_TRY(k_head_dim, keys.read_count("ssm.state_size"));
  T9_TRY(n_k_heads, keys.read_count("ssm.group_count"));
  T9_TRY(n_v_heads, keys.read_count("ssm.time_step_rank"));
  T9_TRY(inner_size, keys.read_count("ssm.inner_size"));
  if (kernel < 2) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is {}, must be 2 or more", keys.full_name("ssm.conv_kernel"), kernel));
  }
  if (n_v_heads % n_k_heads != 0) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} of {} is not a multiple of {} of {}", keys.full_name("ssm.time_step_rank"),
                            n_v_heads, keys.full_name("ssm.group_count"), n_k_heads));
  }
  if (inner_size != n_v_heads * k_head_dim) {
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("metadata {} is {}, must be {} of {} times {} of {}", keys.full_name("ssm.inner_size"), inner_size,
                    keys.full_name("ssm.time_step_rank"), n_v_heads, keys.full_name("ssm.state_size"), k_head_dim));
  }
  T9_TRY(is_tiled, keys.metadata().find_bool(keys.full_name("ssm.v_head_reordered")));
  if (is_tiled && !*is_tiled && n_v_heads != n_k_heads) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("metadata {} is false: value heads in the order of the checkpoint are not implemented",
                            keys.full_name("ssm.v_head_reordered")));
  }
  return DeltaShape{.kernel = kernel, .n_k_heads = n_k_heads, .n_v_heads = n_v_heads, .head_dim = k_head_dim};
}

Result<Builder::RopeSpec> read_rope(const Keys& keys, const DecoderParams& common) {
  T9_TRY(rope, read_rope_params(keys, common, tensor::RopePairs::kHalves));
  T9_TRY(axes, read_rope_axes(keys, common.n_rot, RopeSections::kInterleaved));
  rope.axes = std::move(axes);
  return make_rope(rope);
}

// The width of the shared expert: its key, else the dense width, else what the tensors have.
Result<int64_t> read_shared_width(const Keys& keys, const gguf::File& file, const DecoderParams& common) {
  constexpr std::string_view kKey = "expert_shared_feed_forward_length";
  if (keys.metadata().contains(keys.full_name(kKey))) return keys.read_count(kKey);
  if (common.layers[0].n_ff > 0) return common.layers[0].n_ff;
  constexpr std::string_view kTensor = "blk.0.ffn_up_shexp.weight";
  const gguf::TensorInfo* up = file.find_tensor(kTensor);
  if (up) return up->ne[1];
  return fail(ErrorCode::kInvalidInput, fmt::format("tensor {} is missing", kTensor));
}

Result<Params> read_params(const Keys& keys, const gguf::File& file, const Variant& variant) {
  T9_TRY_VOID(keys.read_count("rope.dimension_count"));
  T9_TRY(common,
         read_decoder_params(keys, {.needs_feed_forward = !variant.has_experts, .allows_layers_without_kv = true}));
  T9_TRY(n_draft_blocks, keys.find_count("nextn_predict_layers", 0));
  if (n_draft_blocks >= common.n_layers()) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is {}, must be below {} of {}", keys.full_name("nextn_predict_layers"),
                            n_draft_blocks, keys.full_name("block_count"), common.n_layers()));
  }
  const int64_t n_layers = common.n_layers() - n_draft_blocks;
  T9_TRY(is_recurrent, read_recurrent_layers(keys, common, n_layers));
  T9_TRY(delta, read_delta_shape(keys));
  T9_TRY(rope, read_rope(keys, common));
  Params params{.common = std::move(common),
                .n_layers = n_layers,
                .is_recurrent = std::move(is_recurrent),
                .delta = delta,
                .rope = std::move(rope),
                .experts = {}};
  if (!variant.has_experts) {
    T9_TRY_VOID(refuse_experts(keys));
    return params;
  }
  T9_TRY_VOID(keys.read_count("expert_count"));
  T9_TRY(experts, read_expert_params(keys, params.common, ExpertWidth::kFeedForwardPerUsed));
  T9_TRY(n_shared_ff, read_shared_width(keys, file, params.common));
  params.experts = experts;
  params.n_shared_ff = n_shared_ff;
  return params;
}

// --- Weights
// -----------------------------------------------------------------------------------------------------------

struct DeltaWeights {
  Weight qkv, conv;
  Weight z;
  Weight beta, alpha;
  Weight a, dt;
  Weight norm;  // over each head
  Weight output;
};

struct SharedExpertWeights {
  Weight router;
  FeedForwardWeights ffn;
};

struct Layer {
  Weight attn_norm;
  DeltaWeights delta;     // one of the two
  AttentionWeights attn;  // q: of each head its query, then its gate
  Weight post_attention_norm;
  FeedForwardWeights ffn;  // or the two below
  ExpertWeights experts;
  SharedExpertWeights shared;

  Weight branch_output() const { return delta.output ? delta.output : attn.output; }
};

DeltaWeights bind_delta(TensorBinder& bind, const std::string& blk, int64_t d, const DeltaShape& shape) {
  return {.qkv = bind.matrix(blk + "attn_qkv.weight", d, shape.conv_cols()),
          .conv = bind.vector(blk + "ssm_conv1d.weight", shape.kernel, shape.conv_cols()),
          .z = bind.matrix(blk + "attn_gate.weight", d, shape.value_cols()),
          .beta = bind.matrix(blk + "ssm_beta.weight", d, shape.n_v_heads),
          .alpha = bind.matrix(blk + "ssm_alpha.weight", d, shape.n_v_heads),
          .a = bind.vector(blk + "ssm_a", shape.n_v_heads),
          .dt = bind.vector(blk + "ssm_dt.bias", shape.n_v_heads),
          .norm = bind.vector(blk + "ssm_norm.weight", shape.head_dim),
          .output = bind.matrix(blk + "ssm_out.weight", shape.value_cols(), d)};
}

AttentionWeights bind_gated_attention(TensorBinder& bind, const std::string& blk, int64_t d, const HeadShape& shape) {
  return {.q = bind.matrix(blk + "attn_q.weight", d, 2 * shape.q_cols()),
          .k = bind.matrix(blk + "attn_k.weight", d, shape.k_cols()),
          .v = bind.matrix(blk + "attn_v.weight", d, shape.v_cols()),
          .output = bind.matrix(blk + "attn_output.weight", shape.out_cols(), d),
          .q_norm = bind.vector(blk + "attn_q_norm.weight", shape.k_head_dim),
          .k_norm = bind.vector(blk + "attn_k_norm.weight", shape.k_head_dim)};
}

SharedExpertWeights bind_shared_expert(TensorBinder& bind, const std::string& blk, int64_t d, int64_t n_ff) {
  return {.router = bind.matrix(blk + "ffn_gate_inp_shexp.weight", d, 1),
          .ffn = {.gate = bind.matrix(blk + "ffn_gate_shexp.weight", d, n_ff),
                  .up = bind.matrix(blk + "ffn_up_shexp.weight", d, n_ff),
                  .down = bind.matrix(blk + "ffn_down_shexp.weight", n_ff, d)}};
}

Layer bind_layer(TensorBinder& bind, const Params& params, size_t index) {
  const int64_t d = params.common.n_embd;
  const std::string blk = fmt::format("blk.{}.", index);
  Layer layer;
  layer.attn_norm = bind.vector(blk + "attn_norm.weight", d);
  if (params.is_recurrent[index]) {
    layer.delta = bind_delta(bind, blk, d, params.delta);
  } else {
    layer.attn = bind_gated_attention(bind, blk, d, params.common.heads(index));
  }
  layer.post_attention_norm = bind.vector(blk + "post_attention_norm.weight", d);
  if (params.experts) {
    layer.experts = bind_experts(bind, blk, d, params.experts);
    layer.shared = bind_shared_expert(bind, blk, d, params.n_shared_ff);
  } else {
    layer.ffn = bind_feed_forward(bind, blk, d, params.common.layers[index].n_ff);
  }
  return layer;
}

// Qwen3-Next, an older relative, has its value heads in another order, which this tensor tells.
Result<void> refuse_qwen3_next(const gguf::File& file, int64_t n_layers) {
  for (int64_t i = 0; i < n_layers; ++i) {
    const std::string name = fmt::format("blk.{}.ssm_ba.weight", i);
    if (!file.find_tensor(name)) continue;
    return fail(ErrorCode::kUnsupported, fmt::format("tensor {}: the layout of Qwen3-Next is not implemented", name));
  }
  return {};
}

// --- The pass
// ------------------------------------------------------------------------------------------------------------

Node delta_branch(Builder& b, const DeltaWeights& w, const Params& params, Node h) {
  const DeltaShape& shape = params.delta;
  const int32_t state_layer = b.add_state_layer(
      {.conv_floats = (shape.kernel - 1) * shape.conv_cols(), .delta_floats = shape.value_cols() * shape.head_dim});
  const Node qkv = b.causal_conv("conv", b.matmul("qkv", h, w.qkv), w.conv, state_layer);
  const Node z = b.matmul("z", h, w.z);
  const Node beta = b.matmul("beta", h, w.beta);
  const Node alpha = b.matmul("alpha", h, w.alpha);
  Node out = b.delta_net("delta", qkv, beta, alpha, w.a, w.dt,
                         {.state_layer = state_layer,
                          .n_k_heads = shape.n_k_heads,
                          .n_v_heads = shape.n_v_heads,
                          .k_dim = shape.head_dim,
                          .v_dim = shape.head_dim});
  out = b.rms_norm("delta_norm", out, w.norm, params.common.rms_eps, shape.head_dim);
  return b.gated_activation("delta_gated", z, out, tensor::Activation::kSilu);
}

// Each head's output is multiplied by a gate that the same rows of attn_q give, neither normalised nor rotated.
Node attention_branch(Builder& b, const AttentionWeights& w, const Params& params, const HeadShape& shape, Node h) {
  const int64_t head_dim = shape.k_head_dim;
  const Node q_and_gate = b.matmul("q_and_gate", h, w.q);
  const Node gate = b.take_columns("gate", q_and_gate, 2 * head_dim, head_dim, head_dim);
  Heads heads{.q = b.take_columns("q", q_and_gate, 2 * head_dim, 0, head_dim),
              .k = b.matmul("k", h, w.k),
              .v = b.matmul("v", h, w.v)};
  heads = rotate_heads(b, normalise_heads(b, w, heads, shape, params.common.rms_eps), params.rope);
  const Node out = attend(b, heads, shape, {.scale = head_scale(shape)});
  return b.gated_activation("attn_gated", gate, out, tensor::Activation::kSigmoid);
}

// The first half of a layer, up to the output projection.
Node mixing_branch(Builder& b, const Layer& w, const Params& params, size_t index, Node x) {
  const Node h = b.rms_norm("attn_norm", x, w.attn_norm, params.common.rms_eps);
  return params.is_recurrent[index] ? delta_branch(b, w.delta, params, h)
                                    : attention_branch(b, w.attn, params, params.common.heads(index), h);
}

Node shared_expert(Builder& b, const SharedExpertWeights& w, Node h) {
  const Node gate = b.matmul("ffn_shared_gate", h, w.router);
  return b.gate_rows("ffn_shared", gate, feed_forward(b, w.ffn, kActivation, h));
}

Node ffn_branch(Builder& b, const Layer& w, const Params& params, Node x) {
  const Node h = b.rms_norm("ffn_norm", x, w.post_attention_norm, params.common.rms_eps);
  if (!params.experts) return feed_forward(b, w.ffn, kActivation, h);
  const Node mixed = mix_experts(b, w.experts, params.experts, kActivation, h);
  return b.add("ffn_sum", mixed, shared_expert(b, w.shared, h));
}

// The rest of a layer, from what the output projection is to read.
Node finish_layer(Builder& b, const Layer& w, const Params& params, Node x, Node branch) {
  x = b.add("attn_residual", x, b.matmul("attn_output", branch, w.branch_output()));
  return b.add("out", x, ffn_branch(b, w, params, x));
}

// --- The block that drafts
// -----------------------------------------------------------------------------------------------

struct DraftWeights {
  Embeddings embeddings;  // the main model's, where the block has none of its own
  Weight embd_norm, hidden_norm;
  Weight in_proj;  // reads the embedding, then the hidden state
  Layer layer;
  Weight output_norm;
};

DraftWeights bind_draft(TensorBinder& bind, const Params& params, const Vocabulary& vocabulary) {
  const int64_t d = params.common.n_embd;
  const size_t index = static_cast<size_t>(params.n_layers);
  const std::string blk = fmt::format("blk.{}.nextn.", index);
  DraftWeights w;
  w.embeddings = bind_embeddings(bind, vocabulary, d);
  w.embd_norm = bind.vector(blk + "enorm.weight", d);
  w.hidden_norm = bind.vector(blk + "hnorm.weight", d);
  w.in_proj = bind.matrix(blk + "eh_proj.weight", 2 * d, d);
  w.layer = bind_layer(bind, params, index);
  w.output_norm = bind.find_vector(blk + "shared_head_norm.weight", d);
  if (!w.output_norm) w.output_norm = bind.vector("output_norm.weight", d);
  const Weight table = bind.find_matrix(blk + "embed_tokens.weight", d, vocabulary.n_embeddings);
  if (table) w.embeddings.table = table;
  const Weight head = bind.find_matrix(blk + "shared_head_head.weight", d, vocabulary.n_logits);
  if (head) w.embeddings.head = head;
  return w;
}

// Row by row: the main model's hidden state at a token, and the token that follows it, give the token after that. The
// block's own hidden state takes the place of the main model's in a row that drafts one token further.
tensor::Program draft_program(Builder b, const DraftWeights& w, const Params& params) {
  const float eps = params.common.rms_eps;
  const size_t index = static_cast<size_t>(params.n_layers);
  b.set_prefix(fmt::format("blk.{}.", index));
  const Node embd = b.rms_norm("embd_norm", b.embed("embd", w.embeddings.table, 1.0f), w.embd_norm, eps);
  const Node hidden = b.rms_norm("hidden_norm", b.input("hidden", params.common.n_embd), w.hidden_norm, eps);
  Node x = b.matmul("in_proj", b.concat("embd_and_hidden", embd, hidden), w.in_proj);
  // Of most rows, all those of a prompt, only K and V are wanted.
  const Node branch = b.select_outputs("attn_selected", mixing_branch(b, w.layer, params, index, x));
  x = finish_layer(b, w.layer, params, b.select_outputs("x_selected", x), branch);
  const Node last = b.rms_norm("output_norm", x, w.output_norm, eps);
  b.set_hidden(last);
  return std::move(b).finish(b.matmul("logits", last, w.embeddings.head));
}

struct Draft {
  std::optional<DraftModel> model;
  std::vector<std::string> warnings;
};

// A file with an incomplete block loads without it. Takes the block's tensors off `bind`'s list of unused ones.
Result<Draft> load_draft(const gguf::File& file, const Params& params, const Vocabulary& vocabulary,
                         TensorBinder& bind) {
  Draft draft;
  for (int64_t i = params.n_layers + 1; i < params.common.n_layers(); ++i) {
    bind.leave_out(fmt::format("blk.{}.", i));
    draft.warnings.push_back(fmt::format("block {} is not used: only one that drafts is implemented", i));
  }
  if (!params.has_draft_block()) return draft;
  Builder b;
  TensorBinder draft_bind(file, b);
  const DraftWeights weights = bind_draft(draft_bind, params, vocabulary);
  if (!draft_bind.missing().empty()) {
    bind.leave_out(fmt::format("blk.{}.", params.n_layers));
    draft.warnings.push_back(fmt::format("tensor {} is missing: the model can't draft", draft_bind.missing()));
    return draft;
  }
  T9_TRY_VOID(draft_bind.status());
  bind.share_use(draft_bind);
  draft.model = DraftModel{.program = draft_program(std::move(b), weights, params), .weights = draft_bind.views()};
  return draft;
}

Result<Model> load(std::shared_ptr<const gguf::File> file, const Variant& variant) {
  const Keys keys(file->metadata(), variant.name);
  T9_TRY(params, read_params(keys, *file, variant));
  T9_TRY_VOID(refuse_qwen3_next(*file, params.n_layers));
  T9_TRY(vocabulary, read_vocabulary(*file, keys));

  Builder b;
  TensorBinder bind(*file, b);
  const Embeddings embeddings = bind_embeddings(bind, vocabulary, params.common.n_embd);
  const Weight output_norm = bind.vector("output_norm.weight", params.common.n_embd);
  std::vector<Layer> layers;
  for (size_t i = 0; i < static_cast<size_t>(params.n_layers); ++i) layers.push_back(bind_layer(bind, params, i));
  T9_TRY_VOID(bind.status());
  T9_TRY(draft, load_draft(*file, params, vocabulary, bind));

  Node x = b.embed("embd", embeddings.table, 1.0f);
  for (size_t i = 0; i < layers.size(); ++i) {
    b.set_prefix(fmt::format("blk.{}.", i));
    Node branch = mixing_branch(b, layers[i], params, i, x);
    if (i + 1 == layers.size() && !draft.model) {  // nothing after the last mixing needs the other rows, but drafting
      branch = b.select_outputs("attn_selected", branch);
      x = b.select_outputs("x_selected", x);
    }
    x = finish_layer(b, layers[i], params, x, branch);
  }
  b.set_prefix("");
  Node last = b.rms_norm("output_norm", x, output_norm, params.common.rms_eps);
  if (draft.model) {
    b.set_hidden(last);
    last = b.select_outputs("output_selected", last);
  }
  const Node logits = b.matmul("logits", last, embeddings.head);
  params.common.layers.resize(layers.size());
  T9_TRY(model, make_model(std::move(file), params.common, bind, std::move(b).finish(logits)));
  model.draft = std::move(draft.model);
  model.warnings.insert(model.warnings.end(), draft.warnings.begin(), draft.warnings.end());
  return model;
}

}  // namespace

Result<Model> load_qwen35(std::shared_ptr<const gguf::File> file) { return load(std::move(file), {.name = "qwen35"}); }
Result<Model> load_qwen35moe(std::shared_ptr<const gguf::File> file) {
  return load(std::move(file), {.name = "qwen35moe", .has_experts = true});
}

}  // namespace tempo9::models
