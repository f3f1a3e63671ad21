// `tempo9 doctor`: one verdict for each kind of file, before anything is loaded.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/program.h"
#include "gguf/writer.h"
#include "models/model_file.h"
#include "support/data.h"

namespace tempo9 {
namespace {

using testing::golden_path;
using testing::Output;
using testing::run;

class Doctor : public testing::FolderTest {
 protected:
  static Output diagnose(const std::string& arguments) { return run("doctor --port 0 " + arguments); }
  // It will not run, and the reason is all of `parts`.
  static void expect_refusal(const std::string& path, std::initializer_list<const char*> parts) {
    const Output output = diagnose(path);
    EXPECT_EQ(output.exit_code, 1) << output.text;
    const size_t verdict = output.text.rfind("will not run: ");
    ASSERT_NE(verdict, std::string::npos) << output.text;
    for (const char* part : parts) EXPECT_NE(output.text.find(part, verdict), std::string::npos) << output.text;
  }
};

bool has(const Output& output, std::string_view part) { return output.text.find(part) != std::string::npos; }

TEST_F(Doctor, AGoodFileWillRunAndWhatItTakesIsSaid) {
  const Output output = diagnose(golden_path("llama/model.gguf") + " --max-length 100 --memory 64M");
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_TRUE(output.text.ends_with("will run\n")) << output.text;
  EXPECT_TRUE(has(output, "ok    model         llama, ")) << output.text;
  EXPECT_TRUE(has(output, "ok    types         ")) << output.text;
  EXPECT_TRUE(has(output, "ok    tokenizer     ")) << output.text;
  EXPECT_TRUE(has(output, "ok    budget        61 MiB beside the weights: ")) << output.text;
  EXPECT_TRUE(has(output, "ok    context       100 tokens; one that is full takes ")) << output.text;
  EXPECT_EQ(output.text.find('\x1b'), std::string::npos) << "colours are for terminals";
}

TEST_F(Doctor, ARefusedTypeIsNamedWithItsTensor) {
  ModelFile file = ModelFile::read(golden_path("quant/Q4_K_M/model.gguf"));
  file.reshape("blk.0.ffn_up.weight", file.tensor("blk.0.ffn_up.weight").ne, tensor::DType::kIQ2_XS);
  file.write(path("iq2.gguf"));
  expect_refusal(path("iq2.gguf"), {"blk.0.ffn_up.weight", "IQ2_XS", "Q4_K_M"});
}

TEST_F(Doctor, AnUnknownTokenizerIsNamed) {
  ModelFile file = ModelFile::read(golden_path("llama/model.gguf"));
  file.set("tokenizer.ggml.model", std::string("runes"));
  file.write(path("runes.gguf"));
  expect_refusal(path("runes.gguf"), {"runes"});
  EXPECT_TRUE(has(diagnose(path("runes.gguf")), "ok    model ")) << "the rest is looked at all the same";
}

// As many copies of a layer as make 3 TiB, of which nearly all is a hole.
TEST_F(Doctor, AModelThatIsLargerThanTheMemorySaysBothSizes) {
  constexpr int64_t kWide = int64_t{1} << 24;
  constexpr uint32_t kLayers = 64;
  ModelFile file = ModelFile::read(golden_path("quant/Q4_K_M/model.gguf"));
  const auto architecture = std::get<std::string>(std::get<gguf::Scalar>(file.metadata.at("general.architecture")));
  file.set(architecture + ".feed_forward_length", static_cast<uint32_t>(kWide));
  file.set(architecture + ".block_count", kLayers);
  gguf::Writer writer;
  for (const auto& [key, value] : file.metadata) writer.add(key, value);
  const auto add = [&](const std::string& name, const ModelFile::Tensor& t) {
    const bool is_down = name.find(".ffn_down.") != std::string::npos;
    if (!is_down && name.find(".ffn_up.") == std::string::npos && name.find(".ffn_gate.") == std::string::npos) {
      return writer.add_tensor(name, t.dtype, t.ne, t.data);
    }
    std::vector<int64_t> ne = t.ne;
    ne[is_down ? 0 : 1] = kWide;
    writer.add_hole(name, tensor::DType::kF32, ne);
  };
  const std::string first = "blk.0.";
  for (const ModelFile::Tensor& t : file.tensors) {
    if (!t.name.starts_with("blk.")) add(t.name, t);
    if (!t.name.starts_with(first)) continue;
    for (uint32_t i = 0; i < kLayers; ++i) add("blk." + std::to_string(i) + "." + t.name.substr(first.size()), t);
  }
  ASSERT_TRUE(writer.write(path("large.gguf")));
  expect_refusal(path("large.gguf"), {"TiB of weights, ", " of memory", "take a smaller model or quantisation"});
}

TEST_F(Doctor, ATruncatedFileSaysSo) {
  const std::string whole = testing::read_bytes(golden_path("llama/model.gguf"));
  expect_refusal(write("cut.gguf", whole.substr(0, whole.size() - 1000)), {"cut.gguf", "past the end"});
}

TEST_F(Doctor, AProjectorIsNoModel) {
  gguf::Writer writer;
  writer.add("general.architecture", gguf::Scalar(std::string("clip")));
  ASSERT_TRUE(writer.write(path("mmproj.gguf")));
  expect_refusal(path("mmproj.gguf"), {"projector for images", "give the language model's file"});
}

TEST_F(Doctor, ATowerThatCannotBeOpenedIsTold) {
  expect_refusal(golden_path("llama/model.gguf") + " --tower " + path("none"), {"tower", path("none").c_str()});
}

TEST_F(Doctor, ASplitModelWithAMissingPartNamesThePart) {
  ModelFile file = ModelFile::read(golden_path("llama/model.gguf"));
  file.set("split.no", uint16_t{0});
  file.set("split.count", uint16_t{2});
  file.write(path("split-00001-of-00002.gguf"));
  expect_refusal(path("split-00001-of-00002.gguf"), {"split-00002-of-00002.gguf"});
}

TEST_F(Doctor, WhatIsNoGgufSaysWhatItIs) {
  expect_refusal(write("page.gguf", "<!DOCTYPE html><html></html>"), {"page.gguf", "HTML"});
}

TEST_F(Doctor, ANameThatIsNoFileIsLookedForInOllamasStore) {
  setenv("OLLAMA_MODELS", path("none").c_str(), 1);
  expect_refusal("qwen3:8b", {"no Ollama store is there"});
  expect_refusal("missing.gguf", {"missing.gguf", "No such file"});
}

TEST_F(Doctor, WithoutAModelItLooksAtTheMachine) {
  const Output output = diagnose("");
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_TRUE(has(output, "'tempo9 doctor FILE' says whether a model will run")) << output.text;
}

TEST_F(Doctor, ABudgetWithoutRoomAndABadFlagAreTold) {
  expect_refusal(golden_path("llama/model.gguf") + " --memory 100K", {"a memory budget of 0 MB is too small"});
  EXPECT_EQ(diagnose("--max-batch 0").exit_code, 2);
  setenv("AS_KV_OFFLOAD", "perhaps", 1);
  EXPECT_EQ(diagnose("").exit_code, 2);
  unsetenv("AS_KV_OFFLOAD");
}

}  // namespace
}  // namespace tempo9
