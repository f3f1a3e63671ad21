#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "graph/builder.h"

namespace tempo9::graph {
namespace {

using tensor::RowSet;
using tensor::ValueId;

constexpr int64_t kCols = 8;

// A value's life as the op list has it, worked out here without the planner.
struct Life {
  size_t begin = 0;
  size_t end = 0;  // inclusive
};

std::vector<Life> lives_of(const tensor::Program& program) {
  std::vector<Life> lives(program.values.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto read = [&](ValueId id) { lives[static_cast<size_t>(id)].end = i; };
    const auto write = [&](ValueId id) { lives[static_cast<size_t>(id)] = {i, i}; };
    const tensor::Op& op = program.ops[i];
    if (const auto* embed = std::get_if<tensor::Embed>(&op)) write(embed->out);
    if (const auto* add = std::get_if<tensor::Add>(&op)) read(add->a), read(add->b), write(add->out);
    if (const auto* cap = std::get_if<tensor::SoftCap>(&op)) read(cap->x), write(cap->out);
    if (const auto* matmul = std::get_if<tensor::MatMul>(&op)) read(matmul->x), write(matmul->out);
    if (const auto* select = std::get_if<tensor::SelectOutputs>(&op)) read(select->x), write(select->out);
  }
  lives[static_cast<size_t>(program.logits)].end = program.ops.size();
  return lives;
}

void expect_valid_plan(const tensor::Program& program) {
  const tensor::MemoryPlan& plan = program.memory;
  const std::vector<Life> lives = lives_of(program);
  ASSERT_EQ(plan.slot_of_value.size(), program.values.size());
  ASSERT_EQ(plan.slot_rows.size(), plan.slot_cols.size());
  for (size_t a = 0; a < lives.size(); ++a) {
    const size_t slot = static_cast<size_t>(plan.slot_of_value[a]);
    ASSERT_LT(slot, plan.slot_cols.size());
    EXPECT_GE(plan.slot_cols[slot], program.values[a].cols);
    EXPECT_EQ(plan.slot_rows[slot], program.values[a].rows);
    for (size_t b = 0; b < a; ++b) {
      if (plan.slot_of_value[b] != plan.slot_of_value[a]) continue;
      EXPECT_TRUE(lives[a].begin > lives[b].end || lives[b].begin > lives[a].end)
          << program.values[a].name << " and " << program.values[b].name << " share slot " << slot;
    }
  }
}

TEST(MemoryPlan, ValuesThatShareASlotNeverLiveTogether) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Builder b;
    const Weight table = b.weight({.name = "table", .cols = kCols, .rows = 100});
    const Weight square = b.weight({.name = "square", .cols = kCols, .rows = kCols});
    std::vector<Node> nodes = {b.embed("0", table, 1.0f)};
    const auto any = [&] { return nodes[random() % nodes.size()]; };
    const int n_ops = 2 + static_cast<int>(random() % 30);
    for (int i = 1; i < n_ops; ++i) {
      const std::string name = std::to_string(i);
      switch (random() % 3) {
        case 0:
          nodes.push_back(b.add(name, any(), any()));
          break;
        case 1:
          nodes.push_back(b.soft_cap(name, any(), 1.0f));
          break;
        default:
          nodes.push_back(b.matmul(name, any(), square));
      }
    }
    const Node last = b.select_outputs("last", any());
    const tensor::Program program = std::move(b).finish(b.matmul("logits", last, table));
    expect_valid_plan(program);
  }
}

TEST(MemoryPlan, AChainNeedsTwoSlotsHoweverLong) {
  Builder b;
  const Weight table = b.weight({.name = "table", .cols = kCols, .rows = 100});
  Node x = b.embed("0", table, 1.0f);
  for (int i = 1; i < 50; ++i) x = b.soft_cap(std::to_string(i), x, 1.0f);
  const Node last = b.select_outputs("last", x);
  const tensor::Program program = std::move(b).finish(b.matmul("logits", last, table));
  const auto& rows = program.memory.slot_rows;
  EXPECT_EQ(std::count(rows.begin(), rows.end(), RowSet::kBatch), 2);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), RowSet::kOutputs), 2);
}

TEST(MemoryPlan, AValueThatNobodyReadsStillHasAPlace) {
  Builder b;
  const Weight table = b.weight({.name = "table", .cols = kCols, .rows = 100});
  const Node x = b.embed("0", table, 1.0f);
  b.soft_cap("unread", x, 1.0f);
  const tensor::Program program = std::move(b).finish(b.select_outputs("logits", x));
  expect_valid_plan(program);
}

}  // namespace
}  // namespace tempo9::graph
