#include "graph/builder.h"

#include <gtest/gtest.h>

namespace tempo9::graph {
namespace {

using tensor::DType;
using tensor::RowSet;

// A builder with the weights of one attention layer: 8 columns, 4 query and 2 KV heads of 2.
struct Fixture {
  Builder b;
  Weight table = b.weight({.name = "token_embd.weight", .dtype = DType::kQ8_0, .cols = 8, .rows = 10});
  Weight norm = b.weight({.name = "norm.weight", .dtype = DType::kF32, .cols = 8});
  Weight wq = b.weight({.name = "q.weight", .dtype = DType::kF16, .cols = 8, .rows = 8});
  Weight wk = b.weight({.name = "k.weight", .dtype = DType::kF16, .cols = 8, .rows = 4});
  Weight half_bias = b.weight({.name = "half.bias", .dtype = DType::kF16, .cols = 8});
  Node x = b.embed("embd", table, 1.0f);
};

TEST(Builder, BuildsOpsAndValuesInOrderWithPrefixedNames) {
  Fixture f;
  f.b.set_prefix("blk.0.");
  const Builder::RopeSpec rope{.frequencies = {1.0f}, .head_dim = 2};
  const Node q = f.b.rope("q_rope", f.b.matmul("q", f.x, f.wq), rope);
  const Node k = f.b.rope("k_rope", f.b.matmul("k", f.x, f.wk), rope);
  const Node v = f.b.matmul("v", f.x, f.wk);
  const int32_t layer = f.b.add_kv_layer({.n_kv_heads = 2, .k_head_dim = 2, .v_head_dim = 2, .window = 16});
  const Node a = f.b.attention("attn", q, k, v, {.kv_layer = layer, .n_heads = 4, .scale = 0.5f});
  f.b.set_prefix("");
  const Node last = f.b.select_outputs("last", f.b.rms_norm("norm", f.b.add("sum", a, f.x), f.norm, 1e-5f));
  const tensor::Program program =
      std::move(f.b).finish(f.b.soft_cap("capped", f.b.matmul("logits", last, f.table), 30.0f));

  ASSERT_EQ(program.values.size(), 12u);
  EXPECT_EQ(program.values[1].name, "blk.0.q");
  EXPECT_EQ(program.values[6].name, "blk.0.attn");
  EXPECT_EQ(program.values[6].cols, 8);
  EXPECT_EQ(program.values[8].name, "norm");
  EXPECT_EQ(program.values[9].rows, RowSet::kOutputs);
  EXPECT_EQ(program.values[static_cast<size_t>(program.logits)].cols, 10);
  EXPECT_EQ(program.rope_frequencies.size(), 1u) << "equal tables are kept once";
  ASSERT_EQ(program.ops.size(), 13u);
  EXPECT_TRUE(std::holds_alternative<tensor::KvWrite>(program.ops[6]));
  EXPECT_EQ(std::get<tensor::Attention>(program.ops[7]).window, 16);
}

TEST(Builder, NormalisesHeadsOnTheirOwn) {
  Fixture f;
  const Weight head_norm = f.b.weight({.name = "q_norm.weight", .dtype = DType::kF32, .cols = 2});
  EXPECT_EQ(f.b.cols(f.b.rms_norm("q_norm", f.x, head_norm, 1e-6f, 2)), 8);
}

TEST(BuilderDeath, ChecksShapes) {
  Fixture f;
  const Node k = f.b.matmul("k", f.x, f.wk);
  EXPECT_DEATH(f.b.matmul("again", k, f.wk), "k.weight \\[8, 4, 1\\] times 4 columns");
  EXPECT_DEATH(f.b.add("sum", f.x, k), "8 and 4 columns");
  EXPECT_DEATH(f.b.rms_norm("norm", k, f.norm, 1e-5f), "a vector of 4 F32");
  EXPECT_DEATH(f.b.matmul("q", f.x, f.wq, f.half_bias), "a vector of 8 F32");
  EXPECT_DEATH(f.b.gated_activation("ffn", f.x, k, tensor::Activation::kSilu), "8 and 4 columns");
  EXPECT_DEATH(f.b.rope("rope", k, {.frequencies = {1.0f, 0.5f}, .head_dim = 2}), "4 rotated");
  const int32_t layer = f.b.add_kv_layer({.n_kv_heads = 2, .k_head_dim = 2, .v_head_dim = 2});
  EXPECT_DEATH(f.b.attention("attn", f.x, k, k, {.kv_layer = layer, .n_heads = 3}), "3 heads over 2");
  EXPECT_DEATH(f.b.attention("attn", k, k, k, {.kv_layer = layer, .n_heads = 4}), "columns of");
  EXPECT_DEATH(f.b.attention("attn", f.x, k, k, {.kv_layer = 1, .n_heads = 4}), "no KV layer 1");
  EXPECT_DEATH(std::move(f.b).finish(f.x), "kOutputs");
}

}  // namespace
}  // namespace tempo9::graph
