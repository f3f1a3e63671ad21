// The list of architectures, and what is checked before one of them is asked.
#include "models/list.h"

#include <fmt/format.h>

#include <array>

#include "base/utf8.h"
#include "tensor/dtype.h"

namespace tempo9::models {
namespace {

// clang-format off
constexpr std::array kArchitectures = {
    Architecture{"gemma3", load_gemma3},
    Architecture{"gemma4", load_gemma4},
    Architecture{"gpt-oss", load_gpt_oss},
    Architecture{"llama", load_llama},
    Architecture{"mistral3", load_mistral3},
    Architecture{"qwen2", load_qwen2},
    Architecture{"qwen2vl", load_qwen2vl},
    Architecture{"qwen3", load_qwen3},
    Architecture{"qwen35", load_qwen35},
    Architecture{"qwen35moe", load_qwen35moe},
    Architecture{"qwen3moe", load_qwen3moe},
    Architecture{"qwen3vl", load_qwen3vl},
    Architecture{"qwen3vlmoe", load_qwen3vlmoe},
};
// clang-format on

Result<const Architecture*> find_architecture(const gguf::Metadata& metadata) {
  T9_TRY(name, metadata.find_string("general.architecture"));
  if (!name) return fail(ErrorCode::kInvalidInput, "metadata general.architecture is missing");
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == *name) return &architecture;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
  }
  return fail(ErrorCode::kUnsupported,
              fmt::format("architecture \"{}\" is not implemented; known are: {}", sanitize_utf8(*name), known));
}

// Files that hold an adapter, an image tower or a vocabulary share the container with models.
Result<void> check_is_model(const gguf::Metadata& metadata) {
  T9_TRY(type, metadata.find_string("general.type"));
  T9_TRY(architecture, metadata.find_string("general.architecture"));
  if (type == "mmproj" || architecture == "clip") {
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("metadata general.{}: this file is a projector for images (mmproj), which holds no model by "
                    "itself; give the language model's file",
                    type == "mmproj" ? "type is \"mmproj\"" : "architecture is \"clip\""));
  }
  if (!type || *type == "model") return {};
  return fail(ErrorCode::kUnsupported,
              fmt::format("metadata general.type is \"{}\": this file holds no model by itself", sanitize_utf8(*type)));
}

// Blocks of files from before version 2 have other layouts under the same type ids.
Result<void> check_quantization_version(const gguf::File& file) {
  constexpr int64_t kVersion = 2;
  T9_TRY(version, file.metadata().find_int("general.quantization_version"));
  if (!version || *version == kVersion) return {};
  for (const gguf::TensorInfo& info : file.tensors()) {
    if (tensor::dtype_info(info.dtype).block_elements == 1) continue;
    return fail(ErrorCode::kUnsupported,
                fmt::format("metadata general.quantization_version is {}, only {} is implemented; reconvert the model",
                            *version, kVersion));
  }
  return {};
}

}  // namespace

std::span<const Architecture> all_architectures() { return kArchitectures; }

int64_t embedding_cols(const tensor::Program& program) {
  int64_t cols = 0;
  for (const tensor::Op& op : program.ops) {
    const auto cols_of = [&](tensor::ValueId id) { return program.values[static_cast<size_t>(id)].cols; };
    if (const auto* embed = std::get_if<tensor::Embed>(&op)) cols = std::max(cols, cols_of(embed->out));
    if (const auto* add = std::get_if<tensor::AddEmbedding>(&op)) cols = std::max(cols, add->begin + cols_of(add->out));
  }
  return cols;
}

int64_t most_image_rows(const Model& model) {
  int64_t rows = INT64_MAX;
  if (!model.info.sees_whole_images) return rows;
  for (const tensor::KvLayerSpec& layer : model.program.kv_layers) {
    if (layer.window > 0) rows = std::min(rows, layer.window);
  }
  return rows;
}

Result<Model> load_model(std::shared_ptr<const gguf::File> file) {
  const std::string path = file->path();
  const auto load = [&]() -> Result<Model> {
    T9_TRY_VOID(check_is_model(file->metadata()));
    T9_TRY(architecture, find_architecture(file->metadata()));
    T9_TRY_VOID(check_quantization_version(*file));
    return architecture->load(std::move(file));
  };
  auto model = load();
  if (!model) return fail(std::move(model).error().context(path));
  return model;
}

}  // namespace tempo9::models
