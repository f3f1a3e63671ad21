// `tempo9 inspect`: what is in a model file and what it would cost to run it, as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "cli/commands.h"
#include "gguf/file.h"
#include "models/model.h"
#include "tensor/kv_view.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::cli {
namespace {

using Json = nlohmann::ordered_json;

// Longer values are shown by their beginning, unless --full is given.
constexpr size_t kMaxElements = 16;
constexpr size_t kMaxStringBytes = 512;
// Rows and outputs of one engine pass, for the working memory.
constexpr int64_t kPassRows = 512;
constexpr int64_t kPassOutputs = 64;

struct Flags {
  std::string path;
  int64_t max_length = 32768;
  bool full = false;
};

Json string_to_json(const std::string& text, bool full) {
  if (full || text.size() <= kMaxStringBytes) return sanitize_utf8(text);
  return {{"bytes", text.size()}, {"begins", sanitize_utf8(std::string_view(text).substr(0, kMaxStringBytes))}};
}

template <class T>
Json scalar_to_json(const T& value, bool full) {
  if constexpr (std::is_same_v<T, std::string>) {
    return string_to_json(value, full);
  } else {
    return value;
  }
}

Json array_to_json(const gguf::Array& array, bool full) {
  return std::visit(
      [&](const auto& elements) -> Json {
        using Element = typename std::decay_t<decltype(elements)>::value_type;
        const size_t shown = full ? elements.size() : std::min(elements.size(), kMaxElements);
        Json list = Json::array();
        for (size_t i = 0; i < shown; ++i) list.push_back(scalar_to_json<Element>(elements[i], full));
        if (shown == elements.size()) return list;
        return {{"count", elements.size()}, {"begins", std::move(list)}};
      },
      array);
}

Json metadata_to_json(const gguf::Metadata& metadata, bool full) {
  Json json = Json::object();
  for (const auto& [key, value] : metadata.entries()) {
    if (const auto* array = std::get_if<gguf::Array>(&value)) {
      json[key] = array_to_json(*array, full);
    } else {
      json[key] = std::visit([&](const auto& x) { return scalar_to_json(x, full); }, std::get<gguf::Scalar>(value));
    }
  }
  return json;
}

Json tensors_to_json(const gguf::File& file) {
  Json list = Json::array();
  for (const gguf::TensorInfo& info : file.tensors()) {
    Json entry = {{"name", info.name},
                  {"type", tensor::dtype_name(info.dtype)},
                  {"shape", std::vector<int64_t>(info.ne, info.ne + info.n_dims)},
                  {"bytes", info.bytes}};
    if (file.n_parts() > 1) entry["part"] = info.part;
    list.push_back(std::move(entry));
  }
  return list;
}

// Tensors and bytes of each type.
Json types_to_json(const gguf::File& file) {
  struct Total {
    int64_t n_tensors = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string_view, Total> totals;
  for (const gguf::TensorInfo& info : file.tensors()) {
    Total& total = totals[tensor::dtype_name(info.dtype)];
    ++total.n_tensors;
    total.bytes += info.bytes;
  }
  Json json = Json::object();
  for (const auto& [name, total] : totals) {
    json[std::string(name)] = {{"tensors", total.n_tensors}, {"bytes", total.bytes}};
  }
  return json;
}

// Bytes of one token in one layer, with K and V in f16.
int64_t f16_token_bytes(const tensor::KvLayerSpec& layer) {
  return layer.n_kv_heads * (layer.k_head_dim + layer.v_head_dim) * 2;
}

// Tokens a layer holds of a sequence of `length`, in whole pages; a sliding one also those of the pass that runs.
int64_t kept_tokens(const tensor::KvLayerSpec& layer, int64_t length) {
  const int64_t kept = layer.window > 0 ? std::min(length, layer.window + kPassRows) : length;
  return (kept + tensor::kPageTokens - 1) / tensor::kPageTokens * tensor::kPageTokens;
}

int64_t activation_bytes(const tensor::MemoryPlan& plan) {
  int64_t floats = 0;
  for (size_t i = 0; i < plan.slot_cols.size(); ++i) {
    floats += plan.slot_cols[i] * (plan.slot_rows[i] == tensor::RowSet::kBatch ? kPassRows : kPassOutputs);
  }
  return floats * static_cast<int64_t>(sizeof(float));
}

Json memory_to_json(const models::Model& model, int64_t max_length) {
  const int64_t length = std::min(max_length, model.info.context_length);
  uint64_t weights_bytes = 0;
  for (const tensor::WeightView& view : model.weights) weights_bytes += view.size_bytes();
  int64_t per_token = 0;
  int64_t per_token_sliding = 0;
  int64_t at_length = 0;
  for (const tensor::KvLayerSpec& layer : model.program.kv_layers) {
    (layer.window > 0 ? per_token_sliding : per_token) += f16_token_bytes(layer);
    at_length += f16_token_bytes(layer) * kept_tokens(layer, length);
  }
  return {{"weights_bytes", weights_bytes},
          {"kv_f16_bytes_per_token", per_token + per_token_sliding},
          {"kv_f16_bytes_per_token_sliding", per_token_sliding},
          {"length", length},
          {"kv_f16_bytes_at_length", at_length},
          {"activation_bytes", activation_bytes(model.program.memory)},
          {"activation_rows", kPassRows}};
}

Json model_to_json(const std::shared_ptr<const gguf::File>& file, int64_t max_length) {
  const auto model = models::load_model(file);
  if (!model) return {{"supported", false}, {"reason", sanitize_utf8(model.error().message())}};
  return {{"supported", true},
          {"architecture", model->info.architecture},
          {"name", model->info.name},
          {"parameters", model->info.n_parameters},
          {"layers", model->info.n_layers},
          {"embedding_length", model->info.n_embd},
          {"vocabulary", model->info.n_vocab},
          {"context_length", model->info.context_length},
          {"memory", memory_to_json(*model, max_length)},
          {"warnings", model->warnings}};
}

Json tokenizer_to_json(const gguf::Metadata& metadata) {
  const auto tokenizer = tokenizer::Tokenizer::create(metadata);
  if (!tokenizer) return {{"supported", false}, {"reason", sanitize_utf8(tokenizer.error().message())}};
  return {{"supported", true},
          {"description", sanitize_utf8((*tokenizer)->description())},
          {"tokens", (*tokenizer)->n_tokens()}};
}

Result<Json> inspect(const Flags& flags) {
  T9_TRY(opened, gguf::File::open(flags.path));
  const std::shared_ptr<const gguf::File> file = std::move(opened);
  int64_t n_elements = 0;
  for (const gguf::TensorInfo& info : file->tensors()) n_elements += info.elements();
  return Json{{"file", sanitize_utf8(flags.path)},
              {"version", file->version()},
              {"parts", file->n_parts()},
              {"bytes", file->size_bytes()},
              {"elements", n_elements},
              {"model", model_to_json(file, flags.max_length)},
              {"tokenizer", tokenizer_to_json(file->metadata())},
              {"types", types_to_json(*file)},
              {"metadata", metadata_to_json(file->metadata(), flags.full)},
              {"tensors", tensors_to_json(*file)}};
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model file, and what it needs, as JSON");
  command->add_option("FILE", flags->path, "GGUF file, or the first one of a split model")->required();
  command->add_option("--max-length", flags->max_length, "Context length for the memory plan")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->capture_default_str();
  command->add_flag("--full", flags->full, "Show long arrays and strings whole");
  command->callback([flags, &exit_code] {
    const auto report = inspect(*flags);
    if (!report) {
      fmt::print(stderr, "tempo9 inspect: {}\n", sanitize_utf8(report.error().message()));
      exit_code = kExitFailure;
      return;
    }
    fmt::print("{}\n", report->dump(2, ' ', false, Json::error_handler_t::replace));
  });
}

}  // namespace tempo9::cli
