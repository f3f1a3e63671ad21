// Loading: what is refused, and that the message names what is wrong.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "goldens.h"
#include "model_file.h"
#include "support/data.h"

namespace tempo9 {
namespace {

using gguf::Scalar;
using tensor::DType;

std::string architecture_of(const ModelFile& file) {
  return std::get<std::string>(std::get<Scalar>(file.metadata.at("general.architecture")));
}

// Tensors without which a model still loads.
bool is_optional(const std::string& architecture, std::string_view name) {
  if (name == "output.weight") return architecture != "gpt-oss";
  if (architecture == "gemma4") {
    // Layer 2 is a full one, where K may serve as V.
    return name == "blk.2.attn_v.weight" || name.ends_with("layer_output_scale.weight") ||
           name.ends_with("ffn_down_exps.scale");
  }
  if (architecture.starts_with("qwen35")) return name.starts_with("blk.4.");  // the block that drafts
  return name == "rope_freqs.weight";
}

// Keys without which a model does not load, beside those that all need.
std::vector<std::string> own_keys(const std::string& architecture) {
  if (architecture == "gpt-oss") {
    return {"expert_count",         "expert_used_count",      "expert_feed_forward_length",
            "attention.key_length", "attention.value_length", "attention.sliding_window"};
  }
  if (architecture == "gemma4") {
    return {"feed_forward_length",       "attention.key_length",     "attention.value_length",
            "attention.key_length_swa",  "attention.sliding_window", "attention.sliding_window_pattern",
            "attention.value_length_swa"};
  }
  if (architecture.starts_with("qwen35")) {
    std::vector<std::string> keys = {"rope.dimension_count", "rope.dimension_sections", "ssm.conv_kernel",
                                     "ssm.state_size",       "ssm.group_count",         "ssm.time_step_rank",
                                     "ssm.inner_size"};
    const std::vector<std::string> more = architecture == "qwen35" ? std::vector<std::string>{"feed_forward_length"}
                                                                   : std::vector<std::string>{"expert_count"};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }
  if (architecture == "qwen3moe") return {"expert_count", "expert_used_count"};
  if (architecture == "qwen3vlmoe") return {"expert_count", "expert_used_count", "rope.dimension_sections"};
  if (architecture == "qwen2vl" || architecture == "qwen3vl") {
    return {"feed_forward_length", "rope.dimension_sections"};
  }
  if (architecture == "gemma3") return {"feed_forward_length", "attention.sliding_window"};
  return {"feed_forward_length"};
}

void expect_error(const ModelFile& file, ErrorCode code, const std::vector<std::string>& parts) {
  const auto loaded = file.load();
  ASSERT_FALSE(loaded.model.has_value()) << "loaded in spite of " << parts[0];
  EXPECT_EQ(static_cast<int>(loaded.model.error().code()), static_cast<int>(code)) << loaded.model.error().message();
  for (const std::string& part : parts) {
    EXPECT_NE(loaded.model.error().message().find(part), std::string::npos)
        << "\"" << part << "\" is not in: " << loaded.model.error().message();
  }
}

ModelFile read_golden(const std::string& name) { return ModelFile::read(testing::golden_path(name + "/model.gguf")); }

TEST(Architectures, EachHasAGolden) {
  std::set<std::string> covered;
  for (const Golden& golden : all_goldens()) {
    const auto model = load_golden(golden);
    ASSERT_TRUE(model.has_value()) << model.error().message();
    covered.insert(model->info.architecture);
  }
  for (const models::Architecture& architecture : models::all_architectures()) {
    EXPECT_TRUE(covered.contains(std::string(architecture.name))) << architecture.name;
  }
}

class EveryGolden : public ::testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(Models, EveryGolden, ::testing::ValuesIn(goldens_in("")),
                         [](const ::testing::TestParamInfo<Golden>& golden) { return golden.param.test_name(); });

TEST_P(EveryGolden, LoadsWithoutWarnings) {
  const auto model = load_golden(GetParam());
  ASSERT_TRUE(model.has_value()) << model.error().message();
  EXPECT_TRUE(model->warnings.empty()) << model->warnings[0];
  EXPECT_EQ(model->info.n_vocab, 512);
  EXPECT_EQ(model->info.n_embd, 64);
  EXPECT_EQ(model->info.context_length, GetParam().name == "gpt-oss" ? 131072 : 4096);
  EXPECT_EQ(model->weights.size(), model->program.weights.size());
  const auto mixes_rows = [](const tensor::Op& op) {
    return std::holds_alternative<tensor::Attention>(op) || std::holds_alternative<tensor::DeltaNet>(op);
  };
  EXPECT_EQ(std::ranges::count_if(model->program.ops, mixes_rows), model->info.n_layers);
}

TEST_P(EveryGolden, NamesATensorThatIsMissing) {
  const ModelFile whole = ModelFile::read(GetParam().gguf());
  for (const ModelFile::Tensor& tensor : whole.tensors) {
    ModelFile damaged = whole;
    damaged.remove_tensor(tensor.name);
    if (is_optional(architecture_of(whole), tensor.name)) {
      EXPECT_TRUE(damaged.load().model.has_value()) << tensor.name;
    } else if (tensor.name.ends_with("ffn_gate_up_exps.weight")) {  // then it may be in two tensors
      expect_error(damaged, ErrorCode::kInvalidInput, {"ffn_gate_exps.weight is missing"});
    } else {
      expect_error(damaged, ErrorCode::kInvalidInput, {tensor.name, "missing"});
    }
  }
}

TEST_P(EveryGolden, NamesATensorOfAnotherShape) {
  const ModelFile whole = ModelFile::read(GetParam().gguf());
  for (const ModelFile::Tensor& tensor : whole.tensors) {
    ModelFile damaged = whole;
    std::vector<int64_t> ne = tensor.ne;
    ne[0] *= 2;
    damaged.reshape(tensor.name, ne, tensor.dtype);
    expect_error(damaged, ErrorCode::kInvalidInput, {tensor.name, "shape [", "expected ["});
    ne = tensor.ne;
    ne.resize(4, 1);
    damaged = whole;
    damaged.tensor(tensor.name).ne = ne;
    EXPECT_TRUE(damaged.load().model.has_value()) << tensor.name << ": trailing dimensions of 1 do not count";
    ne[3] = 2;
    damaged.reshape(tensor.name, ne, tensor.dtype);
    expect_error(damaged, ErrorCode::kInvalidInput, {tensor.name});
  }
}

TEST_P(EveryGolden, NamesATensorOfAWrongType) {
  const ModelFile whole = ModelFile::read(GetParam().gguf());
  for (const ModelFile::Tensor& tensor : whole.tensors) {
    ModelFile damaged = whole;
    const bool is_vector = tensor.ne.size() == 1;
    damaged.reshape(tensor.name, tensor.ne, is_vector ? DType::kF16 : DType::kI32);
    expect_error(damaged, is_vector ? ErrorCode::kUnsupported : ErrorCode::kInvalidInput,
                 {tensor.name, is_vector ? "F16" : "I32"});
  }
}

// Every number of the architecture set to what a damaged or hostile file may hold. Loading may succeed (not every key
// matters) but must not crash, and a refusal is an error about the file.
TEST_P(EveryGolden, SurvivesAnyNumberInItsKeys) {
  const ModelFile whole = ModelFile::read(GetParam().gguf());
  const std::string architecture = architecture_of(whole);
  const std::vector<gguf::MetaValue> hostile = {
      Scalar(uint32_t{0}),
      Scalar(int32_t{-1}),
      Scalar(uint32_t{1}),
      Scalar(uint32_t{3}),
      Scalar(uint32_t{0x7FFFFFFF}),
      Scalar(uint64_t{0xFFFFFFFFFFFFFFFF}),
      Scalar(int64_t{1} << 62),
      Scalar(std::numeric_limits<float>::quiet_NaN()),
      Scalar(std::numeric_limits<float>::infinity()),
      Scalar(1e-300),
      Scalar(1e300),
      Scalar(-1.0f),
      Scalar(std::string("x\0y", 3)),
      Scalar(true),
      gguf::Array(std::vector<uint32_t>{}),
      gguf::Array(std::vector<uint32_t>(2000, 2)),
      gguf::Array(std::vector<bool>{true, false, true}),
  };
  const std::vector<std::string> more = {
      "rope.scaling.type",       "rope.scaling.factor", "attention.sliding_window_pattern",
      "final_logit_softcapping", "rope.freq_base_swa",  "expert_count",
      "expert_weights_scale",    "expert_gating_func",  "expert_weights_norm"};
  std::vector<std::string> keys;
  for (const auto& [key, value] : whole.metadata) {
    if (key.starts_with(architecture + ".")) keys.push_back(key);
  }
  for (const std::string& key : more) keys.push_back(architecture + "." + key);
  for (const std::string& key : keys) {
    ModelFile damaged = whole;
    for (const gguf::MetaValue& value : hostile) {
      damaged.metadata.insert_or_assign(key, value);
      const auto loaded = damaged.load();
      if (loaded.model) continue;
      EXPECT_TRUE(loaded.model.error().code() == ErrorCode::kInvalidInput ||
                  loaded.model.error().code() == ErrorCode::kUnsupported)
          << loaded.model.error().message();
    }
    damaged = whole;
    damaged.metadata.erase(key);
    const auto loaded = damaged.load();
    EXPECT_TRUE(loaded.model || loaded.model.error().code() == ErrorCode::kInvalidInput);
  }
}

TEST_P(EveryGolden, NamesARequiredKeyThatIsMissing) {
  const ModelFile whole = ModelFile::read(GetParam().gguf());
  const std::string architecture = architecture_of(whole);
  std::vector<std::string> keys = own_keys(architecture);
  for (const char* key : {"block_count", "context_length", "embedding_length", "attention.head_count",
                          "attention.layer_norm_rms_epsilon"}) {
    keys.push_back(key);
  }
  for (const std::string& key : keys) {
    ModelFile damaged = whole;
    ASSERT_EQ(damaged.metadata.erase(architecture + "." + key), 1u);
    expect_error(damaged, ErrorCode::kInvalidInput, {architecture + "." + key, "missing"});
  }
}

TEST_P(EveryGolden, TakesNumbersPerLayerToo) {
  ModelFile file = ModelFile::read(GetParam().gguf());
  const std::string architecture = architecture_of(file);
  const auto number = [&](const std::string& key) {
    return std::get<uint32_t>(std::get<Scalar>(file.metadata.at(architecture + "." + key)));
  };
  const uint32_t n_layers = number("block_count");
  for (const std::string key : {"attention.head_count", "attention.head_count_kv", "feed_forward_length"}) {
    if (std::holds_alternative<gguf::Array>(file.metadata.at(architecture + "." + key))) continue;
    file.set(architecture + "." + key, std::vector<uint32_t>(n_layers, number(key)));
  }
  const auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  file.set(architecture + ".feed_forward_length", std::vector<uint32_t>(n_layers + 1, 96));
  expect_error(file, ErrorCode::kInvalidInput, {"feed_forward_length", "layers"});
}

TEST(Load, NamesAnUnknownArchitecture) {
  ModelFile file = read_golden("llama");
  file.set("general.architecture", std::string("mam\xFF"
                                               "ba"));
  expect_error(file, ErrorCode::kUnsupported,
               {"test.gguf",
                "\"mam\xEF\xBF\xBD"
                "ba\"",
                "llama"});
  file.metadata.erase("general.architecture");
  expect_error(file, ErrorCode::kInvalidInput, {"general.architecture is missing"});
}

TEST(Load, RefusesFilesThatHoldNoModel) {
  ModelFile file = read_golden("llama");
  file.set("general.type", std::string("mmproj"));
  expect_error(file, ErrorCode::kUnsupported, {"general.type", "mmproj"});
}

TEST(Load, RefusesExpertsWhereTheArchitectureHasNone) {
  for (const std::string name : {"gemma3", "qwen2", "qwen3", "qwen35", "qwen3vl"}) {
    ModelFile file = read_golden(name);
    file.set(name + ".expert_count", uint32_t{8});
    expect_error(file, ErrorCode::kUnsupported, {name + ".expert_count", "8"});
  }
}

TEST(Load, RefusesCountsOfExpertsThatContradictEachOther) {
  ModelFile file = read_golden("qwen3moe");
  const std::vector<std::string> both = {"qwen3moe.expert_count", "qwen3moe.expert_used_count"};
  file.set("qwen3moe.expert_used_count", uint32_t{1000});
  expect_error(file, ErrorCode::kInvalidInput, both);
  file.set("qwen3moe.expert_used_count", uint32_t{0});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen3moe.expert_used_count is 0"});
  file = read_golden("llama");
  file.set("llama.expert_count", uint32_t{8});
  expect_error(file, ErrorCode::kInvalidInput, {"llama.expert_used_count is missing"});
  file = read_golden("llama");
  file.set("llama.expert_used_count", uint32_t{2});
  expect_error(file, ErrorCode::kInvalidInput, {"llama.expert_used_count is 2"});
}

TEST(Load, RefusesRoutingThatIsNotASoftmax) {
  ModelFile file = read_golden("qwen3moe");
  file.set("qwen3moe.expert_weights_norm", true);
  file.set("qwen3moe.expert_gating_func", uint32_t{1});
  EXPECT_TRUE(file.load().model.has_value());
  file.set("qwen3moe.expert_gating_func", uint32_t{2});
  expect_error(file, ErrorCode::kUnsupported, {"qwen3moe.expert_gating_func is 2"});
  file.set("qwen3moe.expert_gating_func", uint32_t{1});
  file.set("qwen3moe.expert_weights_norm", false);
  expect_error(file, ErrorCode::kUnsupported, {"qwen3moe.expert_weights_norm is false"});
}

TEST(Load, NamesExpertsInTensorsOfTheirOwn) {
  ModelFile file = read_golden("qwen3moe");
  file.remove_tensor("blk.1.ffn_gate_exps.weight");
  file.add_tensor("blk.1.ffn_gate.0.weight", {64, 64});
  expect_error(file, ErrorCode::kUnsupported, {"blk.1.ffn_gate.0.weight"});
}

TEST(Load, RefusesSectionsThatAreNotTheRotatedPairs) {
  for (const std::string name : {"qwen2vl", "qwen35", "qwen3vl", "qwen3vlmoe"}) {
    ModelFile file = read_golden(name);
    const std::string key = name + ".rope.dimension_sections";
    for (const std::vector<int32_t>& sections : std::vector<std::vector<int32_t>>{
             {}, {8, 0}, {1, 1, 1, 0}, {8, 8, -8, 0}, {100, 100, 100, 100}, {0, 0, 0, 8}}) {
      file.set(key, sections);
      expect_error(file, ErrorCode::kInvalidInput, {key});
    }
    file.set(key, uint32_t{8});
    expect_error(file, ErrorCode::kInvalidInput, {key});
  }
}

TEST(Load, RefusesMoreDeepstackLayersThanLayers) {
  ModelFile file = read_golden("qwen3vl");
  file.set("qwen3vl.n_deepstack_layers", uint32_t{1000});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen3vl.n_deepstack_layers is 1000"});
}

TEST(Load, TemperatureOfMinistralNeedsNoKeyAndMayNotFall) {
  ModelFile file = read_golden("mistral3");
  file.metadata.erase("mistral3.attention.temperature_scale");
  EXPECT_TRUE(file.load().model.has_value());
  file.set("mistral3.attention.temperature_scale", -0.1f);
  expect_error(file, ErrorCode::kInvalidInput, {"mistral3.attention.temperature_scale"});
}

TEST(Load, BiasesOfQwen2AreRequired) {
  ModelFile file = read_golden("qwen2");
  file.remove_tensor("blk.0.attn_k.bias");
  expect_error(file, ErrorCode::kInvalidInput, {"blk.0.attn_k.bias", "missing"});
}

// --- qwen35

TEST(Load, ABlockThatDraftsSharesTheModelsWeights) {
  for (const std::string name : {"qwen35", "qwen35moe"}) {
    const auto loaded = read_golden(name).load();
    ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
    const models::Model& model = *loaded.model;
    ASSERT_TRUE(model.draft.has_value());
    EXPECT_EQ(model.info.n_layers, 4);
    EXPECT_EQ(model.draft->weights.size(), model.draft->program.weights.size());
    EXPECT_EQ(model.draft->program.kv_layers.size(), 1u);
    EXPECT_EQ(model.draft->program.weights[0].name, "token_embd.weight");
    EXPECT_EQ(model.draft->weights[0].data, model.weights[0].data);
    const auto width = [](const tensor::Program& program) {
      return program.values[static_cast<size_t>(program.hidden)].cols;
    };
    EXPECT_EQ(width(model.program), 64);
    EXPECT_EQ(width(model.draft->program), 64);
    // The block needs a hidden state of each row of a prompt, but of each only to make K and V.
    const auto rows_of = [](const tensor::Program& program, tensor::ValueId id) {
      return program.values[static_cast<size_t>(id)].rows;
    };
    EXPECT_EQ(rows_of(model.program, model.program.hidden), tensor::RowSet::kBatch);
    EXPECT_EQ(rows_of(model.draft->program, model.draft->program.hidden), tensor::RowSet::kOutputs);
    for (const tensor::Value& value : model.draft->program.values) {
      if (value.name.find("ffn") == std::string::npos) continue;
      EXPECT_EQ(value.rows, tensor::RowSet::kOutputs) << value.name;
    }
  }
}

TEST(Load, AModelWithoutACompleteBlockThatDraftsSaysSo) {
  const ModelFile whole = read_golden("qwen35");
  for (const std::string name : {"nextn.eh_proj", "nextn.hnorm", "attn_q", "ffn_down"}) {
    ModelFile file = whole;
    file.remove_tensor("blk.4." + name + ".weight");
    const auto loaded = file.load();
    ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
    EXPECT_FALSE(loaded.model->draft.has_value());
    EXPECT_EQ(loaded.model->program.hidden, tensor::kNone);
    ASSERT_EQ(loaded.model->warnings.size(), 1u);
    EXPECT_NE(loaded.model->warnings[0].find("blk.4." + name + ".weight is missing"), std::string::npos);
  }
  ModelFile file = whole;
  file.remove_tensor("blk.4.nextn.shared_head_norm.weight");
  const auto loaded = file.load();
  EXPECT_TRUE(loaded.model.value().draft.has_value()) << "output_norm stands in";
  EXPECT_TRUE(loaded.model->warnings.empty());
}

TEST(Load, RefusesABlockCountThatLeavesNoMainLayer) {
  ModelFile file = read_golden("qwen35");
  for (const uint32_t n : {5u, 6u}) {
    file.set("qwen35.nextn_predict_layers", n);
    expect_error(file, ErrorCode::kInvalidInput, {"qwen35.nextn_predict_layers", "qwen35.block_count of 5"});
  }
}

TEST(Load, ReadsRecurrentLayersAsIntervalOrAsFlags) {
  ModelFile file = read_golden("qwen35");
  file.set("qwen35.attention.head_count_kv", std::vector<uint32_t>{0, 0, 0, 2, 2});
  auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  EXPECT_EQ(loaded.model->program.state_layers.size(), 3u);
  EXPECT_EQ(loaded.model->program.kv_layers.size(), 1u);
  file.set("qwen35.full_attention_interval", uint32_t{7});  // the flags win
  file.set("qwen35.attention.recurrent_layers", std::vector<bool>{true, true, true, false, true});
  loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  EXPECT_EQ(loaded.model->program.state_layers.size(), 3u);
  file.set("qwen35.attention.recurrent_layers", std::vector<bool>{true, true, false, true, false});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen35.attention.head_count_kv is 0 in layer 2"});
  file.set("qwen35.attention.recurrent_layers", std::vector<bool>{true, false});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen35.attention.recurrent_layers has 2 elements", "5 layers"});
  file.metadata.erase("qwen35.attention.recurrent_layers");
  file.set("qwen35.full_attention_interval", uint32_t{0});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen35.full_attention_interval is 0"});
}

TEST(Load, RefusesSizesOfDeltaNetsThatContradictEachOther) {
  const ModelFile whole = read_golden("qwen35");
  ModelFile file = whole;
  file.set("qwen35.ssm.group_count", uint32_t{3});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen35.ssm.time_step_rank of 4", "qwen35.ssm.group_count of 3"});
  file = whole;
  file.set("qwen35.ssm.inner_size", uint32_t{64});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen35.ssm.inner_size is 64", "qwen35.ssm.state_size of 32"});
  file = whole;
  file.set("qwen35.ssm.conv_kernel", uint32_t{1});
  expect_error(file, ErrorCode::kInvalidInput, {"qwen35.ssm.conv_kernel is 1"});
}

TEST(Load, RefusesTheLayoutsOfQwen3Next) {
  ModelFile file = read_golden("qwen35");
  file.set("qwen35.ssm.v_head_reordered", true);
  EXPECT_TRUE(file.load().model.has_value());
  file.set("qwen35.ssm.v_head_reordered", false);
  expect_error(file, ErrorCode::kUnsupported, {"qwen35.ssm.v_head_reordered"});
  file = read_golden("qwen35");
  file.add_tensor("blk.1.ssm_ba.weight", {64, 8});
  expect_error(file, ErrorCode::kUnsupported, {"blk.1.ssm_ba.weight"});
}

TEST(Load, TakesTheWidthOfTheSharedExpertFromTheTensorsAtLast) {
  ModelFile file = read_golden("qwen35moe");
  file.metadata.erase("qwen35moe.feed_forward_length");
  EXPECT_TRUE(file.load().model.has_value());
  file.metadata.erase("qwen35moe.expert_shared_feed_forward_length");
  const auto loaded = file.load();
  EXPECT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  file.remove_tensor("blk.0.ffn_up_shexp.weight");
  expect_error(file, ErrorCode::kInvalidInput, {"blk.0.ffn_up_shexp.weight is missing"});
}

TEST(Load, TakesTheGateOfTheSharedExpertAsAVector) {
  ModelFile file = read_golden("qwen35moe");
  for (ModelFile::Tensor& tensor : file.tensors) {
    if (tensor.name.ends_with("ffn_gate_inp_shexp.weight")) tensor.ne = {64};
  }
  EXPECT_TRUE(file.load().model.has_value());
}

// --- gemma4

TEST(Load, RefusesGemma4HeadsOfTwoSizes) {
  for (const std::string suffix : {"", "_swa"}) {
    ModelFile file = read_golden("gemma4");
    file.set("gemma4.attention.value_length" + suffix, uint32_t{48});
    expect_error(file, ErrorCode::kInvalidInput,
                 {"gemma4.attention.key_length" + suffix, "gemma4.attention.value_length" + suffix + " is 48"});
  }
}

TEST(Load, SharedKvNeedsALayerOfItsKind) {
  ModelFile file = read_golden("gemma4-e");
  EXPECT_EQ(file.load().model.value().program.kv_layers.size(), 3u);
  file.set("gemma4.attention.shared_kv_layers", uint32_t{4});  // only the first two, which slide, keep theirs
  expect_error(file, ErrorCode::kInvalidInput, {"gemma4.attention.shared_kv_layers is 4", "layer 2"});
  file.set("gemma4.attention.shared_kv_layers", uint32_t{7});
  expect_error(file, ErrorCode::kInvalidInput, {"gemma4.attention.shared_kv_layers is 7"});
}

TEST(Load, IgnoresTheKAndVOfLayersThatShare) {
  ModelFile file = read_golden("gemma4-e");
  for (const std::string name : {"attn_k.weight", "attn_v.weight", "attn_k_norm.weight"}) {
    file.add_tensor("blk.3." + name, {5});
  }
  const auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  EXPECT_TRUE(loaded.model->warnings.empty());
}

TEST(Load, ALayerOfGemma4MayHaveNoExperts) {
  ModelFile file = read_golden("gemma4-moe");
  for (const std::string name :
       {"ffn_gate_inp.weight", "ffn_gate_inp.scale", "ffn_gate_up_exps.weight", "ffn_down_exps.weight",
        "ffn_down_exps.scale", "pre_ffw_norm_2.weight", "post_ffw_norm_1.weight", "post_ffw_norm_2.weight"}) {
    file.remove_tensor("blk.0." + name);
  }
  const auto loaded = file.load();
  EXPECT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
}

TEST(Load, NamesATensorOfARefusedType) {
  ModelFile file = read_golden("quant/Q4_0");
  file.reshape("blk.0.ffn_up.weight", {256, 256}, DType::kIQ2_XS);
  expect_error(file, ErrorCode::kUnsupported, {"blk.0.ffn_up.weight", "IQ2_XS"});
}

TEST(Load, RefusesOldBlockLayouts) {
  ModelFile file = read_golden("quant/Q4_0");
  file.set("general.quantization_version", uint32_t{1});
  expect_error(file, ErrorCode::kUnsupported, {"general.quantization_version"});
  file = read_golden("llama");  // no blocks in it
  file.set("general.quantization_version", uint32_t{1});
  EXPECT_TRUE(file.load().model.has_value());
}

TEST(Load, RefusesScalesBesideWeightsAndWarnsOfOtherTensors) {
  ModelFile file = read_golden("llama");
  for (int i = 0; i < 20; ++i) file.add_tensor("extra." + std::to_string(i), {3, 2});
  const auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  ASSERT_EQ(loaded.model->warnings.size(), 17u);
  EXPECT_NE(loaded.model->warnings[0].find("extra.0 [3, 2]"), std::string::npos);
  EXPECT_NE(loaded.model->warnings[16].find("4 more"), std::string::npos);
  file.add_tensor("blk.0.ffn_up.scale", {1});
  expect_error(file, ErrorCode::kUnsupported, {"blk.0.ffn_up.scale"});
}

TEST(Load, ChecksTheVocabularyAgainstTheTable) {
  ModelFile file = read_golden("llama");
  file.set("llama.vocab_size", uint32_t{511});
  expect_error(file, ErrorCode::kInvalidInput, {"token_embd.weight", "512", "llama.vocab_size", "511"});
  file.metadata.erase("llama.vocab_size");
  EXPECT_TRUE(file.load().model.has_value());
  file.set("tokenizer.ggml.tokens", std::vector<std::string>(513, "a"));
  expect_error(file, ErrorCode::kInvalidInput, {"token_embd.weight", "tokenizer.ggml.tokens", "513"});
}

TEST(Load, TakesAHeadWithoutThePaddingRows) {
  ModelFile file = read_golden("mistral-spm");
  file.set("tokenizer.ggml.tokens", std::vector<std::string>(500, "a"));
  file.reshape("output.weight", {64, 500}, DType::kBF16);
  const auto loaded = file.load();
  ASSERT_TRUE(loaded.model.has_value()) << loaded.model.error().message();
  EXPECT_EQ(loaded.model->info.n_vocab, 500);
  file.reshape("output.weight", {64, 501}, DType::kBF16);
  expect_error(file, ErrorCode::kInvalidInput, {"output.weight", "501"});
}

TEST(Load, RefusesEpsilonsThatAreNotPositive) {
  ModelFile file = read_golden("gemma3");
  for (const float eps :
       {0.0f, -1e-6f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    file.set("gemma3.attention.layer_norm_rms_epsilon", eps);
    expect_error(file, ErrorCode::kInvalidInput, {"gemma3.attention.layer_norm_rms_epsilon"});
  }
}

TEST(Load, RefusesRopeDivisorsThatAreNotPositive) {
  ModelFile file = read_golden("llama-rope-llama3");
  file.reshape("rope_freqs.weight", {24}, DType::kF32);  // zeros
  expect_error(file, ErrorCode::kInvalidInput, {"rope_freqs.weight", "element 0 is 0"});
}

TEST(Load, RefusesPartialRotationInLlama) {
  ModelFile file = read_golden("llama");
  file.set("llama.rope.dimension_count", uint32_t{8});
  expect_error(file, ErrorCode::kInvalidInput, {"llama.rope.dimension_count", "8", "16"});
}

TEST(Load, ReadsSlidingLayersAsPeriodOrAsFlags) {
  ModelFile file = read_golden("gemma3");
  const auto windows = [&] {
    const auto loaded = file.load();
    std::string text;
    for (const auto& layer : loaded.model.value().program.kv_layers) text += layer.window > 0 ? 's' : 'f';
    return text;
  };
  EXPECT_EQ(windows(), "sssssfs");
  file.set("gemma3.attention.sliding_window_pattern", uint32_t{3});
  EXPECT_EQ(windows(), "ssfssfs");
  file.set("gemma3.attention.sliding_window_pattern", std::vector<bool>{false, false, true, false, false, true, true});
  EXPECT_EQ(windows(), "ffsffss");
  file.set("gemma3.attention.sliding_window_pattern", std::vector<bool>{true});
  expect_error(file, ErrorCode::kInvalidInput, {"gemma3.attention.sliding_window_pattern"});
}

TEST(Load, BindsOptionalBiases) {
  ModelFile file = read_golden("llama");
  const size_t n_weights = file.load().model.value().weights.size();
  file.add_tensor("blk.0.attn_q.bias", {64});
  file.add_tensor("blk.2.ffn_down.bias", {64});
  EXPECT_EQ(file.load().model.value().weights.size(), n_weights + 2);
  file.reshape("blk.0.attn_q.bias", {63}, DType::kF32);
  expect_error(file, ErrorCode::kInvalidInput, {"blk.0.attn_q.bias", "[63]", "[64]"});
}

}  // namespace
}  // namespace tempo9
