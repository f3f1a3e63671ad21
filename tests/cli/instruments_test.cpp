// The instruments as processes: exit codes, JSON, files.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "cli/program.h"
#include "gguf/writer.h"
#include "models/model_file.h"
#include "support/data.h"

namespace tempo9 {
namespace {

using Json = nlohmann::json;
using testing::Output;
using testing::read_bytes;
using testing::run;

std::string golden(const std::string& name) { return testing::golden_path(name); }

class Instruments : public testing::FolderTest {};

TEST_F(Instruments, InspectShowsModelTensorsAndMemory) {
  const Output output = run("inspect --max-length 100 --kv-type f16 " + golden("gemma3/model.gguf"));
  ASSERT_EQ(output.exit_code, 0);
  const Json json = Json::parse(output.text);
  EXPECT_TRUE(json["model"]["supported"]);
  EXPECT_EQ(json["model"]["parameters"], json["elements"]);
  const Json& memory = json["model"]["memory"];
  EXPECT_EQ(memory["weights_bytes"], 705536);
  EXPECT_EQ(memory["kv_type"], "f16");
  EXPECT_EQ(memory["kv_bytes_per_token"], 7 * 1 * (32 + 32) * 2);
  EXPECT_EQ(memory["kv_bytes_at_length"], 128 * 7 * 1 * (32 + 32) * 2) << "100 tokens are four pages of 32";
  EXPECT_TRUE(json["tokenizer"]["supported"]);
  EXPECT_EQ(json["types"]["BF16"]["tensors"], 50);
  EXPECT_EQ(json["metadata"]["tokenizer.ggml.tokens"]["count"], 512);
  EXPECT_EQ(json["tensors"][0]["shape"], Json::array({64, 512}));
}

TEST_F(Instruments, InspectCountsKeysAndValuesOfInt8) {
  const Output output = run("inspect --kv-type q8_0 " + golden("gemma3/model.gguf"));
  ASSERT_EQ(output.exit_code, 0);
  const Json memory = Json::parse(output.text)["model"]["memory"];
  EXPECT_EQ(memory["kv_type"], "q8_0");
  EXPECT_EQ(memory["kv_bytes_per_token"], 7 * (32 + 32) * 34 / 32);
}

TEST_F(Instruments, InspectSaysHowEachTensorIsMultiplied) {
  const Output output = run("inspect --isa avx2 " + golden("quant/Q4_K_M/model.gguf"));
  ASSERT_EQ(output.exit_code, 0);
  const Json json = Json::parse(output.text);
  std::map<std::string, Json> tensors;
  for (const Json& tensor : json["tensors"]) tensors[tensor["name"]] = tensor;
  EXPECT_EQ(json["isa"], "avx2");
  EXPECT_EQ(tensors["blk.0.attn_norm.weight"]["use"], Json::array({"vector"}));
  EXPECT_EQ(tensors["blk.0.ffn_up.weight"]["type"], "Q4_K");
  EXPECT_EQ(tensors["blk.0.ffn_up.weight"]["use"], Json::array({"product"}));
  EXPECT_EQ(tensors["blk.0.ffn_up.weight"]["kernel"], "int8");
  EXPECT_EQ(tensors["blk.0.attn_v.weight"]["type"], "Q6_K") << "a mixed file";
  EXPECT_EQ(tensors["token_embd.weight"]["use"][0], "lookup");
  EXPECT_EQ(json["types"]["Q6_K"]["product_kernel"], "int8");
  EXPECT_EQ(json["types"]["F32"]["product_kernel"], "f32");
  const Json scalar = Json::parse(run("inspect --isa scalar " + golden("quant/Q4_K_M/model.gguf")).text);
  EXPECT_EQ(scalar["types"]["Q6_K"]["product_kernel"], "int8 after unpacking");
  EXPECT_EQ(run("inspect --isa sse " + golden("llama/model.gguf"), true).exit_code, 1);
}

TEST_F(Instruments, InspectKnowsTheTensorsOfABlockThatDrafts) {
  const Json json = Json::parse(run("inspect " + golden("qwen35/model.gguf")).text);
  for (const Json& tensor : json["tensors"]) EXPECT_FALSE(tensor["use"].empty()) << tensor["name"];
}

TEST_F(Instruments, InspectMarksTensorsThatAreRefusedOrNotUsed) {
  ModelFile file = ModelFile::read(golden("llama/model.gguf"));
  file.add_tensor("extra", {4, 4});
  file.write(path("extra.gguf"));
  Json json = Json::parse(run("inspect " + path("extra.gguf")).text);
  EXPECT_TRUE(json["model"]["supported"]);
  EXPECT_EQ(json["tensors"].back()["use"], Json::array());
  file.reshape("extra", {256, 2}, tensor::DType::kIQ2_XS);
  file.write(path("extra.gguf"));
  json = Json::parse(run("inspect " + path("extra.gguf")).text);
  EXPECT_NE(json["tensors"].back()["refused"].get<std::string>().find("IQ2_XS"), std::string::npos);
}

TEST_F(Instruments, InspectSaysWhyAFileIsNotSupportedAndEscapesItsStrings) {
  gguf::Writer writer;
  writer.add("general.architecture", gguf::Scalar(std::string("a\"\x1B[31m\xFF\0b", 9)));
  writer.add("a.long", gguf::Scalar(std::string(100000, '\xC3')));
  writer.add("a.nan", gguf::Scalar(std::numeric_limits<double>::quiet_NaN()));
  writer.add("a.strings", gguf::Array(std::vector<std::string>(1000, "\xF0\x9F\x98")));
  writer.add("a.bools", gguf::Array(std::vector<bool>{true, false}));
  ASSERT_TRUE(writer.write(path("hostile.gguf")).has_value());
  const Output output = run("inspect " + path("hostile.gguf"));
  ASSERT_EQ(output.exit_code, 0);
  const Json json = Json::parse(output.text);
  EXPECT_FALSE(json["model"]["supported"]);
  EXPECT_FALSE(json["tokenizer"]["supported"]);
  EXPECT_EQ(json["metadata"]["general.architecture"], std::string("a\"\x1B[31m\xEF\xBF\xBD\0b", 11));
  EXPECT_EQ(json["metadata"]["a.long"]["bytes"], 100000);
  EXPECT_TRUE(json["metadata"]["a.nan"].is_null());
  EXPECT_EQ(json["metadata"]["a.bools"], Json::array({true, false}));
  EXPECT_EQ(output.text.find('\x1B'), std::string::npos) << "control characters reach the terminal";
}

TEST_F(Instruments, EvalKeepsTheGraphAndBuildsItAgainWhenItIsDamaged) {
  const std::string graph = path("graph/llama.graph");
  const std::string command =
      "eval --backend reference --gguf " + golden("llama/model.gguf") + " --expect " + golden("llama/expect.json");
  const auto rms = [](const Output& output) { return Json::parse(output.text)["relative_rms"].get<double>(); };
  const double without = rms(run(command + " --graph off"));
  EXPECT_EQ(rms(run(command + " --graph " + graph)), without);
  ASSERT_TRUE(std::filesystem::exists(graph));
  EXPECT_EQ(rms(run(command + " --graph " + graph)), without);
  EXPECT_EQ(run(command + " --graph " + graph, true).text, "") << "nothing to say when it fits";

  std::string content = read_bytes(graph);
  const std::string good = content;
  content[content.size() / 2] ^= 1;
  std::ofstream(graph, std::ios::binary) << content;
  const Output rebuilt = run(command + " --graph " + graph, true);
  EXPECT_EQ(rebuilt.exit_code, 0);
  EXPECT_NE(rebuilt.text.find("event=graph_rebuilt"), std::string::npos) << rebuilt.text;
  EXPECT_NE(rebuilt.text.find("checksum"), std::string::npos) << rebuilt.text;
  EXPECT_EQ(std::count(rebuilt.text.begin(), rebuilt.text.end(), '\n'), 1) << rebuilt.text;
  EXPECT_EQ(read_bytes(graph), good);

  const Output other = run("eval --backend reference --gguf " + golden("qwen3/model.gguf") + " --expect " +
                           golden("qwen3/expect.json") + " --graph " + graph);
  EXPECT_LE(rms(other), 1e-5) << "the graph of another model is not used";
  EXPECT_NE(read_bytes(graph), good);
}

TEST_F(Instruments, EvalNeverOverwritesAFileThatIsNoGraph) {
  const std::string precious = write("notes.txt", "do not lose this");
  const std::string command =
      "eval --gguf " + golden("llama/model.gguf") + " --expect " + golden("llama/expect.json") + " --graph ";
  const Output output = run(command + precious, true);
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_NE(output.text.find("notes.txt"), std::string::npos) << output.text;
  EXPECT_EQ(read_bytes(precious), "do not lose this");
  const Output unwritable = run(command + "/proc/none/x.graph", true);
  EXPECT_EQ(unwritable.exit_code, 0) << "the graph is only a cache";
  EXPECT_NE(unwritable.text.find("event=graph_not_saved"), std::string::npos) << unwritable.text;
}

TEST_F(Instruments, EvalPutsTheGraphIntoTheCacheFolder) {
  const std::string command = "eval --gguf " + golden("llama/model.gguf") + " --expect " + golden("llama/expect.json");
  setenv("XDG_CACHE_HOME", path("cache").c_str(), 1);
  EXPECT_EQ(run(command).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(path("cache/tempo9/graph/model.gguf.graph")));
  EXPECT_EQ(run(command + " --graph off").exit_code, 0);
}

TEST_F(Instruments, FilesThatAreNoModelsGiveOneLineAndExitCode1) {
  for (const std::string& file : {write("empty.gguf", ""), write("text.gguf", "hello, this is no model at all"),
                                  path("missing.gguf"), std::string("/tmp")}) {
    for (const std::string& command :
         {"inspect " + file, "eval --gguf " + file + " --logits x --tokens " + golden("llama/expect.json")}) {
      const Output output = run(command, true);
      EXPECT_EQ(output.exit_code, 1) << command;
      EXPECT_NE(output.text.find(file), std::string::npos) << output.text;
      EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1) << output.text;
    }
  }
}

TEST_F(Instruments, EvalWritesTheRowsAndComparesThem) {
  const std::string out = path("logits.f32");
  const Output output = run("eval --backend reference --chunk 33 --gguf " + golden("llama/model.gguf") + " --logits " +
                            out + " --expect " + golden("llama/expect.json"));
  ASSERT_EQ(output.exit_code, 0);
  const Json json = Json::parse(output.text);
  EXPECT_EQ(json["rows"], 41);
  EXPECT_EQ(json["argmax_equal"], 41);
  EXPECT_LT(json["relative_rms"], 1e-5);
  EXPECT_EQ(std::filesystem::file_size(out), 41u * 512u * 4u);
}

TEST_F(Instruments, EvalTakesPlainArraysAndRows) {
  const std::string ids = write("ids.json", "[5, 6, 7, 8]");
  const std::string start = "eval --gguf " + golden("llama/model.gguf") + " --tokens " + ids + " --logits ";
  ASSERT_EQ(run(start + path("all.f32")).exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(path("all.f32")), 4u * 512u * 4u);
  ASSERT_EQ(run(start + path("two.f32") + " --rows 0,3").exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(path("two.f32")), 2u * 512u * 4u);
  EXPECT_EQ(run(start + path("x.f32") + " --rows 3,0").exit_code, 1);
  EXPECT_EQ(run(start + path("x.f32") + " --rows 4").exit_code, 1);
  EXPECT_EQ(run(start + path("x.f32") + " --rows 1-2").exit_code, 1);
}

TEST_F(Instruments, EvalRefusesIdsThatAreNone) {
  for (const std::string text : {"[512]", "[-1]", "[1.5]", "[\"a\"]", "{\"rows\": [1]}", "{\"tokens\": 3}", "3", "[1,",
                                 "[99999999999999999999]"}) {
    const Output output = run("eval --gguf " + golden("llama/model.gguf") + " --logits " + path("x.f32") +
                                  " --tokens " + write("ids.json", text),
                              true);
    EXPECT_EQ(output.exit_code, 1) << text;
    EXPECT_FALSE(output.text.empty());
  }
}

// From a projector to a tower that passed its three gates, and from an image to the recorded logits.
TEST_F(Instruments, TowersAreExportedAndLookAtImages) {
  const std::string folder = testing::reference_path("golden/qwen2vl");
  T9_NEED_DATA(folder);
  const std::string make = "tower export " + folder +
                           "/mmproj.gguf --min-pixels 0 --max-pixels 20000 --threads 2 --model " + folder +
                           "/model.gguf --out " + path("tower");
  const Output made = run(make);
  ASSERT_EQ(made.exit_code, 0) << run(make, true).text;
  const Json gates = Json::parse(made.text)["gates"];
  EXPECT_EQ(gates["residency"]["executor"], "cpu");
  EXPECT_GE(gates["buckets"][0]["min_cosine"], 0.98);
  EXPECT_LE(gates["end_to_end"]["mean_kl"], 0.02);
  EXPECT_EQ(run(make).exit_code, 1);  // it exists already
  const Output checked = run("tower check " + path("tower") + " --model " + folder + "/model.gguf");
  ASSERT_EQ(checked.exit_code, 0);
  EXPECT_LE(Json::parse(checked.text)["gates"]["end_to_end"]["mean_kl"], 0.02);
  EXPECT_EQ(run("tower check " + path("nothing")).exit_code, 1);
  const std::string look = "eval --gguf " + folder + "/model.gguf --expect " + folder + "/expect.json --tower ";
  const Output looked = run(look + path("tower") + " --image " + folder + "/image.png");
  ASSERT_EQ(looked.exit_code, 0);
  EXPECT_LE(Json::parse(looked.text)["relative_rms"], 1.4e-2);
  const Output lost = run(look + path("") + " --image " + folder + "/image.png", true);
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_NE(lost.text.find("did you mean"), std::string::npos) << lost.text;
}

TEST_F(Instruments, ParseGivesTheAnswersParts) {
  const std::string text = write("answer.txt",
                                 "<think>\nHm.\n</think>\n\nOk.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": "
                                 "{\"city\": \"Oslo\", \"days\": \"3\"}}\n</tool_call>");
  const std::string tools = golden("toolcases/hermes-json.json");
  for (const std::string chunk : {"", " --chunk 1", " --chunk 7"}) {
    const Output output = run("parse --dialect hermes-json --tools " + tools + chunk + " < " + text);
    ASSERT_EQ(output.exit_code, 0);
    const Json expected = Json::parse(R"({"reasoning":"Hm.","content":"Ok.","incomplete":false,"calls":[
        {"name":"weather","arguments_json":"{\"city\": \"Oslo\", \"days\": 3}"}]})");
    EXPECT_EQ(Json::parse(output.text), expected);
  }
  const Output cut = run("parse --dialect qwen-xml --start reasoning --end length < " + write("cut.txt", "Hm"));
  EXPECT_EQ(Json::parse(cut.text)["reasoning"], "Hm");
}

TEST_F(Instruments, ParseTypesOneParameter) {
  const std::string schema =
      write("schema.json",
            R"({"parameters":{"type":"object","properties":{"v":{"type":"number"}}},"parameter":"v","rows":[]})");
  EXPECT_EQ(run("parse --type " + schema + " < " + write("raw.txt", "\n5e2\n")).text, "500\n");
  EXPECT_EQ(run("parse --type " + schema + " < " + write("raw.txt", "a\n\"b\"")).text, "\"a\\n\\\"b\\\"\"\n");
  EXPECT_EQ(run("parse --type " + write("bad.json", "[]")).exit_code, 1);
}

TEST_F(Instruments, CompletionsAndManualHaveEveryFlagOfTheHelp) {
  const std::string help = run("--help").text;
  std::vector<std::string> texts = {run("man").text};
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const Output script = run("completion " + shell);
    EXPECT_EQ(script.exit_code, 0);
    texts.push_back(script.text);
  }
  EXPECT_EQ(std::system(("bash -n " + write("completion.bash", texts[1])).c_str()), 0);
  static const std::regex kFlag(R"(--([a-z]+(-[a-z]+)*))");
  int n_flags = 0;
  for (std::sregex_iterator flag(help.begin(), help.end(), kFlag), end; flag != end; ++flag, ++n_flags) {
    const std::string name = (*flag)[1];
    const std::string in_troff = std::regex_replace(name, std::regex("-"), "\\-");
    EXPECT_NE(texts[0].find("\\-\\-" + in_troff), std::string::npos) << name;
    EXPECT_NE(texts[1].find("--" + name), std::string::npos) << name;
    EXPECT_NE(texts[2].find("--" + name), std::string::npos) << name;
    EXPECT_NE(texts[3].find("-l " + name), std::string::npos) << name;
  }
  EXPECT_GT(n_flags, 12);
  for (const std::string& text : texts) EXPECT_NE(text.find("inspect"), std::string::npos);
  EXPECT_EQ(run("completion tcsh").exit_code, 2);
}

TEST_F(Instruments, CompletionsAndManualKnowTheCommandsOfACommand) {
  const std::string script = write("completion.bash", run("completion bash").text);
  const auto complete = [&](const std::string& words) {
    const std::string path = write("complete.sh", "source " + script + "\nCOMP_WORDS=(" + words +
                                                      ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_tempo9\n"
                                                      "echo \"${COMPREPLY[*]}\" > " +
                                                      this->path("replies") + "\n");
    EXPECT_EQ(std::system(("bash " + path).c_str()), 0);
    return read_bytes(this->path("replies"));
  };
  EXPECT_EQ(complete("tempo9 insp"), "inspect\n");
  EXPECT_NE(complete("tempo9 bench sp").find("spec"), std::string::npos);
  EXPECT_EQ(complete("tempo9 insp sp"), "\n") << "a command is the first word";
  EXPECT_NE(complete("tempo9 bench spec --").find("--min-acceptance"), std::string::npos);
  EXPECT_EQ(complete("tempo9 inspect --max-l"), "--max-length\n");
  EXPECT_NE(run("man").text.find(".SS tempo9 bench spec"), std::string::npos);
  EXPECT_NE(run("completion zsh").text.find("'bench spec')"), std::string::npos);
  EXPECT_NE(run("completion fish").text.find("__fish_seen_subcommand_from bench; and __fish_seen_subcommand_from spec"),
            std::string::npos);
}

TEST_F(Instruments, BenchSpecComparesAnswersWithAndWithoutDrafts) {
  const std::string prompts =
      write("prompts.jsonl", R"({"workload": "code", "prompt": "def a(x):\n  return x\n\ndef a(x):\n"})"
                             "\n"
                             R"({"workload": "short", "prompt": "one two", "max_tokens": 3})"
                             "\n");
  const std::string command = "bench spec --gguf " + golden("qwen35/model.gguf") + " --prompts " + prompts;
  const Output output = run(command + " --json -r 1 -n 12 -t 1 -k auto,fixed2 --wrong-drafts 1");
  ASSERT_EQ(output.exit_code, 0);
  const Json results = Json::parse(output.text)["results"];
  ASSERT_EQ(results.size(), 4u);
  for (const Json& line : results) {
    EXPECT_EQ(line["different_answers"], 0) << line;
    EXPECT_LE(line["answer_tokens"], line["workload"] == "short" ? 3.0 : 12.0) << line;
    if (line["k"] != "fixed2") continue;
    EXPECT_GT(line["drafted"], 0) << line;
    EXPECT_LT(line["accepted_share"], 0.3) << line;
  }
  EXPECT_EQ(run(command + " -k fixed17").exit_code, 2);
  // The first round leaves prompts in the cache for those that count.
  const std::string long_prompt =
      write("long.jsonl", R"({"workload": "code", "prompt": ")" + std::string(200, 'a') + "\"}\n");
  for (const bool is_warm : {false, true}) {
    const Output out = run("bench spec --gguf " + golden("qwen35/model.gguf") + " --prompts " + long_prompt +
                           " --json -r 1 -n 4 -t 1 -k auto" + (is_warm ? " --warm" : ""));
    const Json line = Json::parse(out.text)["results"][0];
    EXPECT_EQ(line["cached_tokens"] > 0, is_warm) << line;
    EXPECT_EQ(line["different_answers"], 0) << line;
  }
}

TEST_F(Instruments, WrongFlagsGiveExitCode2) {
  EXPECT_EQ(run("parse").exit_code, 2);
  EXPECT_EQ(run("parse --dialect klingon").exit_code, 2);
  EXPECT_EQ(run("parse --type x --dialect generic").exit_code, 2);
  EXPECT_EQ(run("parse --type x --chunk 2").exit_code, 2);
  EXPECT_EQ(run("eval --gguf x").exit_code, 2);
  EXPECT_EQ(run("eval --gguf x --tokens y --logits z --backend gpu").exit_code, 2);
  EXPECT_EQ(run("inspect").exit_code, 2);
}

}  // namespace
}  // namespace tempo9
