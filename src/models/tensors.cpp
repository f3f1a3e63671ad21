#include "models/tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/utf8.h"
#include "quant/quant.h"

namespace tempo9::models {
namespace {

constexpr size_t kMaxWarnings = 16;

// "[64, 512]": without trailing dimensions of 1, which do not count.
std::string shape_text(const gguf::TensorInfo& info) {
  int n_dims = 4;
  while (n_dims > 1 && info.ne[n_dims - 1] == 1) --n_dims;
  std::string text = fmt::format("[{}", info.ne[0]);
  for (int i = 1; i < n_dims; ++i) text += fmt::format(", {}", info.ne[i]);
  return text + "]";
}

// Names of the side tensors that quantisation tools put beside a weight that must be multiplied by them.
bool is_scale(std::string_view name) { return name.ends_with(".scale") || name.ends_with(".input_scale"); }

// The first of the tensors that older converters wrote instead of a stack of experts; empty for other names.
std::string unstacked_name(std::string_view name) {
  constexpr std::string_view kStack = "_exps.weight";
  if (!name.ends_with(kStack)) return {};
  return std::string(name.substr(0, name.size() - kStack.size())) + ".0.weight";
}

}  // namespace

graph::Weight TensorBinder::matrix(const std::string& name, int64_t cols, int64_t rows, int64_t depth) {
  const gguf::TensorInfo* info = require(name, {.cols = cols, .rows = rows, .depth = depth});
  return info ? bind(*info) : graph::Weight{};
}

graph::Weight TensorBinder::vector(const std::string& name, int64_t elements, int64_t count) {
  const gguf::TensorInfo* info = require_floats(name, {.cols = elements, .rows = count});
  return info ? bind(*info) : graph::Weight{};
}

graph::Weight TensorBinder::find_matrix(const std::string& name, int64_t cols, int64_t rows, int64_t depth) {
  return has(name) ? matrix(name, cols, rows, depth) : graph::Weight{};
}

graph::Weight TensorBinder::find_vector(const std::string& name, int64_t elements, int64_t count) {
  return has(name) ? vector(name, elements, count) : graph::Weight{};
}

std::vector<float> TensorBinder::find_positive_values(const std::string& name, int64_t elements) {
  if (!has(name)) return {};
  const gguf::TensorInfo* info = require_floats(name, {.cols = elements});
  if (!info) return {};
  read_.push_back(name);
  std::vector<float> values(static_cast<size_t>(elements));
  std::memcpy(values.data(), file_.view(*info).data, values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && values[i] > 0.0f) continue;
    set_failure(ErrorCode::kInvalidInput,
                fmt::format("tensor {}: element {} is {}, must be finite and above 0", name, i, values[i]));
    return {};
  }
  return values;
}

Result<void> TensorBinder::status() const {
  if (failure_) return fail(*failure_);
  return {};
}

Result<std::vector<std::string>> TensorBinder::unused_tensors() const {
  std::vector<std::string> warnings;
  size_t n_unused = 0;
  for (const gguf::TensorInfo& info : file_.tensors()) {
    const auto begins_name = [&](const std::string& prefix) { return info.name.starts_with(prefix); };
    if (used_.contains(info.name) || std::ranges::any_of(left_out_, begins_name)) continue;
    if (is_scale(info.name)) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {}: weights with a separate scale are not implemented", info.name));
    }
    if (++n_unused <= kMaxWarnings) {
      warnings.push_back(fmt::format("tensor {} {} is not used by this architecture", info.name, shape_text(info)));
    }
  }
  if (n_unused > kMaxWarnings) warnings.push_back(fmt::format("{} more tensors are not used", n_unused - kMaxWarnings));
  return warnings;
}

int64_t TensorBinder::n_elements() const {
  int64_t n = 0;
  for (const std::string& name : used_) n += file_.find_tensor(name)->elements();
  return n;
}

const gguf::TensorInfo* TensorBinder::require(const std::string& name, const Shape& shape) {
  if (failure_) return nullptr;
  const gguf::TensorInfo* info = file_.find_tensor(name);
  if (!info) {
    if (const std::string first = unstacked_name(name); has(first)) {
      set_failure(ErrorCode::kUnsupported,
                  fmt::format("tensor {}: experts in tensors of their own are not implemented", first));
    } else {
      set_failure(ErrorCode::kInvalidInput, fmt::format("tensor {} is missing", name));
      missing_ = name;
    }
    return nullptr;
  }
  if (info->ne[0] != shape.cols || info->ne[1] != shape.rows || info->ne[2] != shape.depth || info->ne[3] != 1) {
    const gguf::TensorInfo expected{.ne = {shape.cols, shape.rows, shape.depth, 1}};
    set_failure(ErrorCode::kInvalidInput,
                fmt::format("tensor {}: shape {}, expected {}", name, shape_text(*info), shape_text(expected)));
    return nullptr;
  }
  if (const auto usable = quant::check_weight_type(name, static_cast<uint32_t>(info->dtype)); !usable) {
    set_failure(usable.error().code(), usable.error().message());
    return nullptr;
  }
  used_.insert(name);
  return info;
}

const gguf::TensorInfo* TensorBinder::require_floats(const std::string& name, const Shape& shape) {
  const gguf::TensorInfo* info = require(name, shape);
  if (!info || info->dtype == tensor::DType::kF32) return info;
  set_failure(ErrorCode::kUnsupported,
              fmt::format("tensor {}: type {}, but norm weights, biases and the like must be F32", name,
                          tensor::dtype_name(info->dtype)));
  return nullptr;
}

graph::Weight TensorBinder::bind(const gguf::TensorInfo& info) {
  views_.push_back(file_.view(info));
  const tensor::WeightView& view = views_.back();
  return builder_.weight(
      {.name = info.name, .dtype = view.dtype, .cols = view.cols, .rows = view.rows, .depth = view.depth});
}

void TensorBinder::set_failure(ErrorCode code, std::string message) {
  if (!failure_) failure_ = std::make_unique<Error>(code, std::move(message));
}

Result<Vocabulary> read_vocabulary(const gguf::File& file, const Keys& keys) {
  const gguf::TensorInfo* table = file.find_tensor("token_embd.weight");
  if (!table) return fail(ErrorCode::kInvalidInput, "tensor token_embd.weight is missing");
  const int64_t n_embeddings = table->ne[1];
  T9_TRY(vocab_size, keys.find_count("vocab_size", n_embeddings));
  if (vocab_size != n_embeddings) {
    return fail(ErrorCode::kInvalidInput, fmt::format("tensor token_embd.weight has {} rows, metadata {} is {}",
                                                      n_embeddings, keys.full_name("vocab_size"), vocab_size));
  }
  int64_t n_tokens = n_embeddings;
  if (keys.metadata().contains("tokenizer.ggml.tokens")) {
    T9_TRY(tokens, keys.metadata().read_strings("tokenizer.ggml.tokens"));
    n_tokens = static_cast<int64_t>(tokens.size());
  }
  if (n_tokens > n_embeddings) {
    return fail(
        ErrorCode::kInvalidInput,
        fmt::format("tensor token_embd.weight has {} rows for the {} elements of metadata tokenizer.ggml.tokens",
                    n_embeddings, n_tokens));
  }
  const gguf::TensorInfo* head = file.find_tensor("output.weight");
  const int64_t n_logits = head ? head->ne[1] : n_embeddings;
  if (n_logits != n_embeddings && n_logits != n_tokens) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("tensor output.weight has {} rows, token_embd.weight has {}", n_logits, n_embeddings));
  }
  return Vocabulary{.n_embeddings = n_embeddings, .n_logits = n_logits};
}

Embeddings bind_embeddings(TensorBinder& bind, const Vocabulary& vocabulary, int64_t n_embd) {
  const graph::Weight table = bind.matrix("token_embd.weight", n_embd, vocabulary.n_embeddings);
  if (!bind.has("output.weight")) return {.table = table, .head = table};
  return {.table = table, .head = bind.matrix("output.weight", n_embd, vocabulary.n_logits)};
}

Result<ModelInfo> read_names(const gguf::File& file) {
  T9_TRY(name, file.metadata().find_string("general.name"));
  T9_TRY(architecture, file.metadata().read_string("general.architecture"));
  return ModelInfo{.architecture = std::move(architecture), .name = sanitize_utf8(name.value_or(""))};
}

Result<Model> make_model(std::shared_ptr<const gguf::File> file, const DecoderParams& params, const TensorBinder& bind,
                         tensor::Program program) {
  T9_CHECK(bind.status().has_value());
  T9_TRY(warnings, bind.unused_tensors());
  T9_TRY(info, read_names(*file));
  Model model;
  model.info = std::move(info);
  model.info.context_length = params.context_length;
  model.info.n_layers = params.n_layers();
  model.info.n_embd = params.n_embd;
  model.info.n_vocab = program.values[static_cast<size_t>(program.logits)].cols;
  model.info.n_parameters = bind.n_elements();
  model.file = std::move(file);
  model.program = std::move(program);
  model.weights = bind.views();
  model.read_tensors = bind.read_tensors();
  model.warnings = std::move(warnings);
  return model;
}

}  // namespace tempo9::models
