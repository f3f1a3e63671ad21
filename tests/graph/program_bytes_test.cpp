#include "graph/program_bytes.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace tempo9::graph {
namespace {

using tensor::DType;

// Every op, every optional part once there and once not.
tensor::Program make_program() {
  Builder b;
  const auto vector = [&](const char* name, int64_t n, int64_t rows = 1) {
    return b.weight({.name = name, .dtype = DType::kF32, .cols = n, .rows = rows});
  };
  const auto matrix = [&](const char* name, int64_t cols, int64_t rows, int64_t depth = 1) {
    return b.weight({.name = name, .dtype = DType::kF16, .cols = cols, .rows = rows, .depth = depth});
  };
  const Weight table = matrix("token_embd.weight", 8, 10);
  b.set_prefix("blk.0.");
  const Node x = b.add("in", b.embed("embd", table, 2.0f), b.input("hidden", 8));
  const Node h = b.rms_norm("norm", x, vector("norm.weight", 8), 1e-5f);
  const Node q = b.rope("q_rope", b.matmul("q", h, matrix("q.weight", 8, 8), vector("q.bias", 8)),
                        {.frequencies = {1.0f}, .head_dim = 4, .magnitude = 1.5f, .axes = {2}});
  const Node k = b.rope("k_rope", b.matmul("k", h, matrix("k.weight", 8, 4)), {.frequencies = {0.5f}, .head_dim = 4});
  const int32_t layer = b.add_kv_layer({.n_kv_heads = 1, .k_head_dim = 4, .v_head_dim = 4, .window = 16});
  const Node scaled = b.position_scale("q_scaled", q, 0.1f, 32);
  const Node a =
      b.attention("attn", scaled, k, k,
                  {.kv_layer = layer, .n_heads = 2, .scale = 0.5f, .softcap = 50.0f, .sinks = vector("sinks", 2)});
  const Node shared = b.attention_shared("attn_shared", q, {.kv_layer = layer, .n_heads = 2});
  const Node gated = b.gated_activation("gated", a, shared, tensor::Activation::kClampedSwiglu);
  const Node half = b.take_columns("half", gated, 4, 2, 2);
  const Node both = b.scale("scaled", b.concat("both", half, half), 0.25f, vector("scale", 1));
  const Node router = b.matmul("router", both, matrix("router.weight", 8, 3));
  const Node experts = b.experts("experts", both, router,
                                 {.gate = matrix("gate_up", 8, 12, 3),
                                  .down = matrix("down", 6, 8, 3),
                                  .gate_bias = vector("gate.bias", 12, 3),
                                  .expert_scale = vector("expert_scale", 3),
                                  .n_used = 2});
  const Node gate = b.matmul("gate", both, matrix("gate.weight", 8, 1));
  const int32_t state = b.add_state_layer({.conv_floats = 3 * 8, .delta_floats = 2 * 2 * 2});
  const Node conv = b.causal_conv("conv", b.gate_rows("gated_rows", gate, experts), vector("conv", 4, 8), state);
  const Node pair = b.take_columns("pair", conv, 8, 0, 2);
  const Node delta = b.delta_net("delta", conv, pair, pair, vector("a", 2), vector("dt", 2),
                                 {.state_layer = state, .n_k_heads = 1, .n_v_heads = 2, .k_dim = 2, .v_dim = 2});
  b.set_hidden(conv);
  const Node last = b.select_outputs("last", b.concat("wide", delta, delta));
  return std::move(b).finish(b.soft_cap("capped", b.matmul("logits", last, table), 30.0f));
}

std::vector<std::byte> bytes_of(const tensor::Program& program) {
  ByteWriter out;
  write_program(program, out);
  return out.data();
}

Result<tensor::Program> read(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  return read_program(in);
}

TEST(ProgramBytes, GiveTheSameProgramBack) {
  const tensor::Program program = make_program();
  const std::vector<std::byte> bytes = bytes_of(program);
  ByteReader in(bytes);
  const auto back = read_program(in);
  ASSERT_TRUE(back.has_value()) << back.error().message();
  EXPECT_TRUE(in.is_at_end());
  EXPECT_EQ(bytes_of(*back), bytes);
  ASSERT_EQ(back->values.size(), program.values.size());
  for (size_t i = 0; i < program.values.size(); ++i) {
    EXPECT_EQ(back->values[i].name, program.values[i].name);
    EXPECT_EQ(back->values[i].cols, program.values[i].cols);
    EXPECT_EQ(back->values[i].rows, program.values[i].rows);
  }
  EXPECT_EQ(back->memory.slot_of_value, program.memory.slot_of_value);
  EXPECT_EQ(back->memory.slot_cols, program.memory.slot_cols);
  EXPECT_EQ(back->logits, program.logits);
  EXPECT_EQ(back->hidden, program.hidden);
}

TEST(ProgramBytes, ThatEndAnywhereAreAnError) {
  const std::vector<std::byte> bytes = bytes_of(make_program());
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(read(std::span(bytes).first(n)).has_value()) << n;
}

// Whatever is read must be a program that keeps the rules: every id in range and every value planned.
TEST(ProgramBytes, WithAnyByteChangedAreAnErrorOrAProgram) {
  const std::vector<std::byte> bytes = bytes_of(make_program());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const uint8_t flip : {0x01, 0x80, 0xFF}) {
      std::vector<std::byte> damaged = bytes;
      damaged[i] ^= std::byte{flip};
      const auto program = read(damaged);
      if (!program) {
        EXPECT_EQ(program.error().code(), ErrorCode::kInvalidInput);
        continue;
      }
      EXPECT_EQ(bytes_of(*program), damaged) << "byte " << i;
    }
  }
}

TEST(ProgramBytes, RefuseToReadKvBeforeItIsWritten) {
  tensor::Program program = make_program();
  std::erase_if(program.ops, [](const tensor::Op& op) { return std::holds_alternative<tensor::KvWrite>(op); });
  const auto back = read(bytes_of(program));
  ASSERT_FALSE(back.has_value());
  EXPECT_NE(back.error().message().find("KV layer 0"), std::string::npos);
}

TEST(ProgramBytes, RefuseTablesWithFewerRowsThanLogits) {
  tensor::Program program = make_program();
  for (tensor::Op& op : program.ops) {
    if (auto* embed = std::get_if<tensor::Embed>(&op)) {
      program.weights.push_back({.name = "small", .dtype = DType::kF16, .cols = 8, .rows = 9});
      embed->table = static_cast<tensor::WeightId>(program.weights.size() - 1);
    }
  }
  EXPECT_FALSE(read(bytes_of(program)).has_value());
}

}  // namespace
}  // namespace tempo9::graph
