#include "models/saved_model.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>

#include "backends/reference/reference.h"
#include "base/byte_stream.h"
#include "cli/evaluate.h"
#include "goldens.h"
#include "graph/builder.h"
#include "graph/program_bytes.h"
#include "model_file.h"
#include "support/data.h"

namespace tempo9 {
namespace {

using gguf::Scalar;
using models::restore_model;
using models::save_model;

// The models that differ in what a program may hold.
class SavedGolden : public ::testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Models, SavedGolden, ::testing::ValuesIn(all_goldens()),
                         [](const ::testing::TestParamInfo<Golden>& golden) { return golden.param.test_name(); });

std::vector<std::byte> program_bytes(const tensor::Program& program) {
  ByteWriter out;
  graph::write_program(program, out);
  return out.data();
}

void expect_same_views(const std::vector<tensor::WeightView>& restored, const std::vector<tensor::WeightView>& built) {
  ASSERT_EQ(restored.size(), built.size());
  for (size_t i = 0; i < built.size(); ++i) {
    const tensor::WeightView &a = restored[i], &b = built[i];
    EXPECT_EQ(a.data, b.data);
    EXPECT_EQ(std::tie(a.dtype, a.cols, a.rows, a.depth, a.row_bytes),
              std::tie(b.dtype, b.cols, b.rows, b.depth, b.row_bytes));
  }
}

TEST_P(SavedGolden, IsTheModelThatWasBuilt) {
  const models::Model built = load_golden(GetParam()).value();
  const auto restored = restore_model(built.file, save_model(built));
  ASSERT_TRUE(restored.has_value()) << restored.error().message();
  EXPECT_EQ(program_bytes(restored->program), program_bytes(built.program));
  expect_same_views(restored->weights, built.weights);
  ASSERT_EQ(restored->draft.has_value(), built.draft.has_value());
  if (built.draft) {
    EXPECT_EQ(program_bytes(restored->draft->program), program_bytes(built.draft->program));
    expect_same_views(restored->draft->weights, built.draft->weights);
  }
  const models::ModelInfo &a = restored->info, &b = built.info;
  EXPECT_EQ(std::tie(a.architecture, a.name, a.context_length, a.n_layers, a.n_embd, a.n_vocab, a.n_parameters,
                     a.sees_whole_images),
            std::tie(b.architecture, b.name, b.context_length, b.n_layers, b.n_embd, b.n_vocab, b.n_parameters,
                     b.sees_whole_images));
  EXPECT_EQ(restored->warnings, built.warnings);
}

// A model in memory and what was saved of it.
struct Saved {
  explicit Saved(const ModelFile& file) : content(file.load()), bytes(save_model(content.model.value())) {}
  std::shared_ptr<const gguf::File> file() const { return content.model->file; }

  ModelFile::Loaded content;
  std::vector<std::byte> bytes;
};

ModelFile read_golden(const std::string& name) { return ModelFile::read(testing::golden_path(name + "/model.gguf")); }

void expect_refused(const Saved& saved, const ModelFile& other, const std::string& why) {
  const ModelFile::Loaded content = other.load();
  ASSERT_TRUE(content.model.has_value()) << content.model.error().message();
  const auto restored = restore_model(content.model->file, saved.bytes);
  ASSERT_FALSE(restored.has_value()) << why;
  EXPECT_EQ(restored.error().message(), "the model file has changed") << why;
}

TEST(SavedModel, IsNotUsedForAnotherModel) {
  const ModelFile original = read_golden("llama-rope-llama3");
  const Saved saved(original);
  ASSERT_TRUE(restore_model(saved.file(), saved.bytes).has_value());

  ModelFile other = original;
  other.set("llama.rope.freq_base", 10001.0f);
  expect_refused(saved, other, "a key");
  other = original;
  other.set("general.name", std::string("other"));
  expect_refused(saved, other, "a name");
  other = original;
  other.add_tensor("extra", {64});
  expect_refused(saved, other, "a tensor more");
  other = original;
  other.tensor("blk.0.attn_norm.weight").name = "blk.0.attn_norm.Weight";
  other.add_tensor("blk.0.attn_norm.weight", {64});
  expect_refused(saved, other, "other names");
  other = original;
  other.reshape("blk.0.attn_q.weight", other.tensor("blk.0.attn_q.weight").ne, tensor::DType::kF16);
  expect_refused(saved, other, "another type");
  other = original;
  other.tensor("rope_freqs.weight").data[1] ^= std::byte{1};
  expect_refused(saved, other, "values that went into the program");
}

TEST(SavedModel, DoesNotDependOnTheBytesOfWeights) {
  ModelFile file = read_golden("llama");
  const Saved saved(file);
  file.tensor("blk.0.attn_q.weight").data[0] ^= std::byte{1};
  const ModelFile::Loaded other = file.load();
  const auto restored = restore_model(other.model.value().file, saved.bytes);
  ASSERT_TRUE(restored.has_value()) << restored.error().message();
  EXPECT_EQ(restored->weights[0].data, other.model->weights[0].data);
}

TEST(SavedModel, WithAnyByteChangedIsRefused) {
  const Saved saved(read_golden("llama"));
  std::vector<std::byte> damaged = saved.bytes;
  for (std::byte& byte : damaged) {
    byte ^= std::byte{0x10};
    const auto restored = restore_model(saved.file(), damaged);
    byte ^= std::byte{0x10};
    ASSERT_FALSE(restored.has_value()) << "byte " << &byte - damaged.data();
    EXPECT_EQ(restored.error().code(), ErrorCode::kInvalidInput);
  }
  for (size_t n = 0; n < damaged.size(); ++n) {
    ASSERT_FALSE(restore_model(saved.file(), std::span(damaged).first(n)).has_value()) << n;
  }
  damaged.push_back(std::byte{0});
  EXPECT_FALSE(restore_model(saved.file(), damaged).has_value());
}

void fix_checksum(std::vector<std::byte>& bytes) {
  const size_t covered = bytes.size() - sizeof(uint64_t);
  const uint64_t checksum = XXH3_64bits(bytes.data(), covered);
  std::memcpy(bytes.data() + covered, &checksum, sizeof checksum);
}

// Somebody who can write the checksum too may get wrong answers, and no more than that: what is read still runs.
TEST(SavedModel, WithAnyByteChangedAndTheChecksumToFitRunsOrIsRefused) {
  for (const std::string name : {"llama-rope-llama3", "qwen3moe", "qwen35", "gemma3"}) {
    const Saved saved(read_golden(name));
    const auto backend = backends::make_reference_backend();
    const std::vector<int32_t> tokens = {1, 2};
    const std::vector<int32_t> rows = {1};
    size_t n_run = 0;
    for (size_t i = 8; i + sizeof(uint64_t) < saved.bytes.size(); i += 3) {
      std::vector<std::byte> damaged = saved.bytes;
      damaged[i] ^= std::byte{0x04};
      fix_checksum(damaged);
      const auto restored = restore_model(saved.file(), damaged);
      if (!restored || ++n_run % 8 != 0) continue;
      const auto result = cli::evaluate(*backend, *restored, tokens, rows, {},
                                        [](tensor::MatView<const float>) -> Result<void> { return {}; });
      EXPECT_TRUE(result || result.error().code() != ErrorCode::kInternal);
      if (!restored->draft) continue;
      const std::vector<int32_t> draft_rows = {0};
      const auto drafted = cli::evaluate_draft(*backend, *restored, tokens, draft_rows, {},
                                               [](tensor::MatView<const float>) -> Result<void> { return {}; });
      EXPECT_TRUE(drafted || drafted.error().code() != ErrorCode::kInternal);
    }
    EXPECT_GT(n_run, 0u);
  }
}

TEST(SavedModel, WhoseProgramNeedsInputRowsIsRefused) {
  const ModelFile::Loaded content = read_golden("llama").load();
  models::Model model = content.model.value();
  graph::Builder b;
  const graph::Weight table =
      b.weight({.name = "token_embd.weight", .dtype = tensor::DType::kBF16, .cols = 64, .rows = 512});
  const graph::Node logits = b.matmul("logits", b.select_outputs("last", b.input("rows", 64)), table);
  model.program = std::move(b).finish(logits);
  const auto restored = restore_model(model.file, save_model(model));
  ASSERT_FALSE(restored.has_value());
  EXPECT_NE(restored.error().message().find("input rows"), std::string::npos) << restored.error().message();
}

TEST(SavedModel, IsKnownByItsFirstBytes) {
  const Saved saved(read_golden("llama"));
  EXPECT_TRUE(models::is_saved_model(saved.bytes));
  EXPECT_FALSE(models::is_saved_model(saved.content.bytes));
  EXPECT_FALSE(models::is_saved_model({}));
}

}  // namespace
}  // namespace tempo9
