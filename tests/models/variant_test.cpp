// Models that are not goldens themselves but must agree with one: other layouts of the same weights, and an image whose
// embeddings are put into the token table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <utility>

#include "backends/reference/reference.h"
#include "cli/evaluate.h"
#include "goldens.h"
#include "kv/cache.h"
#include "model_file.h"
#include "quant/quant.h"
#include "support/data.h"

namespace tempo9 {
namespace {

using gguf::Scalar;
using tensor::DType;

Golden golden(const std::string& name) { return {.name = name, .folder = testing::golden_path(name)}; }

// "blk.0.", "blk.1." and so on
std::vector<std::string> blocks_of(const ModelFile& file) {
  std::vector<std::string> blocks;
  for (int i = 0; file.has(fmt::format("blk.{}.attn_norm.weight", i)); ++i) blocks.push_back(fmt::format("blk.{}.", i));
  return blocks;
}

std::vector<float> logits_of(const models::Model& model, const Expected& input) {
  std::vector<float> logits;
  const auto backend = backends::make_reference_backend();
  const auto result = cli::evaluate(*backend, model, input.tokens, input.rows, {},
                                    [&](tensor::MatView<const float> out) -> Result<void> {
                                      logits.insert(logits.end(), out.data, out.data + out.rows * out.cols);
                                      return {};
                                    });
  EXPECT_TRUE(result.has_value()) << result.error().message();
  return logits;
}

// Puts the rows of each matrix of `below` under those of the same matrix of `top`, which gets a new name. Vectors count
// as matrices of one column.
void join_rows(ModelFile& file, const std::string& top_name, const std::string& below_name, const std::string& name) {
  ModelFile::Tensor& top = file.tensor(top_name);
  const ModelFile::Tensor& below = file.tensor(below_name);
  const bool is_vectors = top_name.ends_with(".bias");
  const size_t n_stacked =
      static_cast<size_t>(is_vectors ? (top.ne.size() > 1 ? top.ne[1] : 1) : (top.ne.size() > 2 ? top.ne[2] : 1));
  std::vector<std::byte> joined;
  for (size_t i = 0; i < n_stacked; ++i) {
    for (const ModelFile::Tensor* t : {&std::as_const(top), &below}) {
      const size_t bytes = t->data.size() / n_stacked;
      const auto begin = t->data.begin() + static_cast<std::ptrdiff_t>(i * bytes);
      joined.insert(joined.end(), begin, begin + static_cast<std::ptrdiff_t>(bytes));
    }
  }
  const size_t rows_dimension = is_vectors ? 0 : 1;
  top.ne[rows_dimension] += below.ne[rows_dimension];
  top.data = std::move(joined);
  top.name = name;
  file.remove_tensor(below_name);
}

// Expects a file whose tensors were joined to give the same bits as the golden.
void expect_same_bits(const ModelFile& joined, const std::string& name) {
  const Expected expected = read_expected(golden(name));
  const auto loaded = joined.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  EXPECT_TRUE(loaded.model->warnings.empty()) << loaded.model->warnings[0];
  const models::Model split = load_golden(golden(name)).value();
  EXPECT_EQ(logits_of(*loaded.model, expected), logits_of(split, expected)) << name;
}

TEST(Variant, GateAndUpExpertsInOneTensorGiveTheSameBits) {
  for (const std::string name : {"qwen3moe", "gpt-oss"}) {
    ModelFile file = ModelFile::read(golden(name).gguf());
    for (const std::string& blk : blocks_of(file)) {
      for (const std::string kind : {".weight", ".bias"}) {
        if (!file.has(blk + "ffn_up_exps" + kind)) continue;
        join_rows(file, blk + "ffn_gate_exps" + kind, blk + "ffn_up_exps" + kind, blk + "ffn_gate_up_exps" + kind);
      }
    }
    expect_same_bits(file, name);
  }
}

TEST(Variant, QueriesKeysAndValuesInOneTensorGiveTheSameBits) {
  for (const std::string name : {"llama", "mistral3", "qwen2", "qwen3", "gemma3", "gpt-oss"}) {
    ModelFile file = ModelFile::read(golden(name).gguf());
    for (const std::string& blk : blocks_of(file)) {
      for (const std::string kind : {".weight", ".bias"}) {
        if (!file.has(blk + "attn_q" + kind)) continue;
        join_rows(file, blk + "attn_q" + kind, blk + "attn_k" + kind, blk + "attn_qkv" + kind);
        join_rows(file, blk + "attn_qkv" + kind, blk + "attn_v" + kind, blk + "attn_qkv" + kind);
      }
    }
    expect_same_bits(file, name);
  }
}

// Mixtral: however rows are routed, experts that are all alike give what the one dense network gives.
TEST(Variant, LlamaWithEqualExpertsIsLlama) {
  ModelFile file = ModelFile::read(golden("llama").gguf());
  const Expected expected = read_expected(golden("llama"));
  constexpr int64_t kExperts = 3;
  for (const std::string& blk : blocks_of(file)) {
    for (const std::string part : {"ffn_gate", "ffn_up", "ffn_down"}) {
      ModelFile::Tensor& t = file.tensor(blk + part + ".weight");
      const std::vector<std::byte> one = t.data;
      for (int64_t e = 1; e < kExperts; ++e) t.data.insert(t.data.end(), one.begin(), one.end());
      t.ne.push_back(kExperts);
      t.name = blk + part + "_exps.weight";
    }
    file.add_tensor(blk + "ffn_gate_inp.weight", {64, kExperts});
  }
  file.set("llama.expert_count", uint32_t{kExperts});
  file.set("llama.expert_used_count", uint32_t{2});
  const auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  EXPECT_TRUE(loaded.model->warnings.empty());
  const cli::Agreement agreement = cli::compare_logits(logits_of(*loaded.model, expected), expected.logits, 512);
  EXPECT_LE(agreement.relative_rms, 1e-5);
}

// --- An image in Qwen2-VL

// M-RoPE positions (spec models 13.2): text counts on in all three planes; an image's tokens spread over them.
struct Positions {
  std::vector<int32_t> time, height, width;
  int32_t next = 0;

  void add(int32_t t, int32_t h, int32_t w) {
    time.push_back(t);
    height.push_back(h);
    width.push_back(w);
  }
  void add_text() {
    add(next, next, next);
    ++next;
  }
  void add_image(int32_t rows, int32_t cols) {
    for (int32_t i = 0; i < rows * cols; ++i) add(next, next + i / cols, next + i % cols);
    next += std::max(rows, cols);
  }
  std::vector<int32_t> planes() const {
    std::vector<int32_t> all = time;
    all.insert(all.end(), height.begin(), height.end());
    all.insert(all.end(), width.begin(), width.end());
    return all;
  }
};

std::vector<float> read_floats(const std::filesystem::path& path) {
  std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
  std::ifstream(path, std::ios::binary)
      .read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

// Gives the image's embeddings token ids of their own, from the end of the vocabulary on. The head stays as it was.
void add_rows_to_table(ModelFile& file, const std::vector<float>& embeddings) {
  ModelFile::Tensor& table = file.tensor("token_embd.weight");
  ASSERT_EQ(table.dtype, DType::kBF16);
  if (!file.has("output.weight")) {
    ModelFile::Tensor head = table;
    head.name = "output.weight";
    file.tensors.push_back(std::move(head));
  }
  ModelFile::Tensor& wide = file.tensor("token_embd.weight");
  const size_t n_old = wide.data.size() / sizeof(uint16_t);
  std::vector<float> values(n_old + embeddings.size());
  for (size_t i = 0; i < n_old; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, wide.data.data() + i * sizeof bits, sizeof bits);
    values[i] = quant::bf16_to_f32(bits);
  }
  std::copy(embeddings.begin(), embeddings.end(), values.begin() + static_cast<std::ptrdiff_t>(n_old));
  file.reshape("token_embd.weight", {wide.ne[0], static_cast<int64_t>(values.size()) / wide.ne[0]}, DType::kF32);
  std::memcpy(wide.data.data(), values.data(), wide.data.size());
}

TEST(Variant, ImageRowsOfQwen2VlSeeTheirThreePositions) {
  const Golden source = golden("qwen2vl");
  const auto json = nlohmann::json::parse(std::ifstream(source.folder / "expect.json"));
  const std::vector<float> embeddings = read_floats(source.folder / "image_embeddings.f32");
  const std::vector<float> reference = read_floats(source.folder / "logits.f32");
  ModelFile file = ModelFile::read(source.gguf());
  add_rows_to_table(file, embeddings);
  file.metadata.erase("qwen2vl.vocab_size");
  const auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  const models::Model& model = *loaded.model;
  ASSERT_EQ(model.info.n_vocab, 512);

  std::vector<int32_t> tokens = json.at("tokens");
  std::vector<int32_t> rows = json.at("rows");
  Positions positions;
  int32_t next_image_token = 512;
  for (int32_t& token : tokens) {
    if (token != json.at("image_token_id").get<int32_t>()) {
      positions.add_text();
      continue;
    }
    // The grid counts patches; the projector merges two by two.
    if (next_image_token == 512)
      positions.add_image(json.at("grid_h").get<int>() / 2, json.at("grid_w").get<int>() / 2);
    token = next_image_token++;
  }
  ASSERT_EQ(next_image_token, 512 + json.at("image_tokens").get<int32_t>());
  const std::vector<int32_t> planes = positions.planes();
  ASSERT_EQ(planes.size(), 3 * tokens.size());

  const int64_t n_rows = std::ssize(tokens), n_outputs = std::ssize(rows);
  const auto backend = backends::make_reference_backend();
  const auto executable =
      backend->compile(model.program, model.weights, {.max_rows = n_rows, .max_outputs = n_outputs}).value();
  const auto cache = kv::Cache::create(*backend, model.program.kv_layers, model.program.state_layers,
                                       {.type = backend->kv_types().front(), .max_tokens = n_rows, .max_sequences = 1})
                         .value();
  const kv::SequenceId sequence = cache->add_sequence().value();
  ASSERT_TRUE(cache->grow(sequence, n_rows).has_value());
  std::vector<int32_t> slots(tokens.size());
  std::iota(slots.begin(), slots.end(), 0);
  const std::vector<int32_t> sequences(tokens.size(), 0);
  std::vector<float> logits(reference.size());
  executable->run({.tokens = tokens,
                   .sequences = sequences,
                   .slots = slots,
                   .positions = planes,
                   .outputs = rows,
                   .kv = cache->view({&sequence, 1}),
                   .states = cache->states({&sequence, 1})},
                  {.logits = {.data = logits.data(), .rows = n_outputs, .cols = 512, .stride = 512}});
  const cli::Agreement agreement = cli::compare_logits(logits, reference, 512);
  EXPECT_LE(agreement.relative_rms, 1e-5);
  EXPECT_EQ(agreement.n_argmax_equal, n_outputs);
}

}  // namespace
}  // namespace tempo9
