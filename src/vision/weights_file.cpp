#include "vision/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "gguf/writer.h"
#include "quant/quant.h"

namespace tempo9::vision {
namespace {

using tensor::DType;

constexpr int64_t kBlock = 32;  // of Q8_0
constexpr float kLargestF16 = 65504.0f;
constexpr const char* kPatchKernel = "v.patch_embd.weight";
constexpr const char* kFfnWidth = "clip.vision.feed_forward_length";

int64_t whole_blocks(int64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

// The size that a tensor is brought to, with zeros.
struct Size {
  int64_t cols = 0;
  int64_t rows = 1;
};

// Which tensors are written in the wanted type, and those that grow: a hidden layer of whole blocks, whose further
// elements are activation(0) = 0 times 0.
struct Plan {
  std::map<std::string, Size, std::less<>> matrices;
  std::map<std::string, Size, std::less<>> biases;
  int64_t ffn_width = 0;
};

std::string bias_of(const Linear& linear) {
  return linear.name.substr(0, linear.name.size() - std::string_view("weight").size()) + "bias";
}

Plan make_plan(const Projector& projector, DType type) {
  const TowerSpec& spec = projector.spec;
  Plan plan{.matrices = {}, .biases = {}, .ffn_width = spec.ffn_width};
  for_each_linear(spec, [&](const Linear& linear) {
    // What had to be put together is small, or not in the file in this form.
    const gguf::TensorInfo* info = projector.file->find_tensor(linear.name);
    if (info == nullptr || projector.file->view(*info).data != linear.weight.data) return;
    plan.matrices[linear.name] = {linear.weight.cols, linear.weight.rows};
  });
  const bool is_quantized = std::ranges::any_of(
      spec.blocks, [](const Block& block) { return quant::find_type(block.up.weight.dtype)->unpack != nullptr; });
  if (type != DType::kQ8_0 || is_quantized) return plan;
  plan.ffn_width = whole_blocks(spec.ffn_width);
  for (const Block& block : spec.blocks) {
    for (const Linear* linear : {&block.gate, &block.up}) {
      if (!linear->is_present()) continue;
      plan.matrices[linear->name] = {spec.width, plan.ffn_width};
      plan.biases[bias_of(*linear)] = {plan.ffn_width, 1};
    }
    plan.matrices[block.down.name] = {plan.ffn_width, spec.width};
  }
  return plan;
}

Result<std::vector<float>> decode(const gguf::File& file, const gguf::TensorInfo& info) {
  std::vector<float> values(static_cast<size_t>(info.elements()));
  quant::find_type(info.dtype)->decode(file.view(info).data, values.data(), info.elements());
  for (const float x : values) {
    if (!std::isfinite(x)) return fail(ErrorCode::kInvalidInput, info.name + ": holds a value that is not finite");
  }
  return values;
}

std::vector<float> grow(const std::vector<float>& values, Size from, Size to) {
  std::vector<float> grown(static_cast<size_t>(to.cols * to.rows));
  for (int64_t r = 0; r < from.rows; ++r) {
    std::copy_n(values.begin() + r * from.cols, from.cols, grown.begin() + r * to.cols);
  }
  return grown;
}

std::vector<std::byte> encode(const std::vector<float>& values, DType type) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<std::byte> bytes(tensor::row_bytes(type, n));
  if (type == DType::kF32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    quant::find_type(type)->encode(values.data(), bytes.data(), n);
  }
  return bytes;
}

std::vector<std::byte> copy_of(const gguf::File& file, const gguf::TensorInfo& info) {
  const std::byte* data = file.view(info).data;
  return {data, data + info.bytes};
}

std::vector<int64_t> dimensions(const gguf::TensorInfo& info) { return {info.ne, info.ne + std::max(info.n_dims, 1)}; }

class WeightsWriter {
 public:
  WeightsWriter(const Projector& projector, DType type)
      : file_(*projector.file), spec_(projector.spec), type_(type), plan_(make_plan(projector, type)) {}

  Result<void> write(const std::string& path) {
    add_metadata();
    for (const gguf::TensorInfo& info : file_.tensors()) {
      if (auto added = add(info); !added) return added;
    }
    return writer_.write(path);
  }

 private:
  void add_metadata() {
    for (const auto& [key, value] : file_.metadata().entries()) {
      if (key == "general.alignment" || key == kFfnWidth) continue;
      writer_.add(key, value);
    }
    writer_.add(kFfnWidth, gguf::Scalar(static_cast<uint32_t>(plan_.ffn_width)));
  }

  Result<void> add(const gguf::TensorInfo& info) {
    if (info.name == std::string(kPatchKernel) + ".1") return {};
    if (info.name == kPatchKernel) return add_patch_kernel(info);
    if (const auto bias = plan_.biases.find(info.name); bias != plan_.biases.end()) {
      T9_TRY(values, decode(file_, info));
      writer_.add_tensor(info.name, DType::kF32, {bias->second.cols},
                         encode(grow(values, {info.ne[0], 1}, bias->second), DType::kF32));
      return {};
    }
    const auto matrix = plan_.matrices.find(info.name);
    if (matrix == plan_.matrices.end() || quant::find_type(info.dtype)->unpack != nullptr) {
      writer_.add_tensor(info.name, info.dtype, dimensions(info), copy_of(file_, info));
      return {};
    }
    return add_matrix(info, matrix->second);
  }

  // Both frames in one.
  Result<void> add_patch_kernel(const gguf::TensorInfo& info) {
    const auto* values = reinterpret_cast<const float*>(spec_.patch_embed.weight.data);
    writer_.add_tensor(info.name, DType::kF32, dimensions(info),
                       encode({values, values + spec_.patch_embed.weight.elements()}, DType::kF32));
    return {};
  }

  Result<void> add_matrix(const gguf::TensorInfo& info, Size size) {
    T9_TRY(values, decode(file_, info));
    const DType type = type_ == DType::kQ8_0 && size.cols % kBlock != 0 ? DType::kF16 : type_;
    if (type == DType::kF16) {
      for (const float x : values) {
        if (std::fabs(x) <= kLargestF16) continue;
        return fail(ErrorCode::kInvalidInput, fmt::format("{}: {} does not fit F16", info.name, x));
      }
    }
    writer_.add_tensor(info.name, type, {size.cols, size.rows},
                       encode(grow(values, {info.ne[0], info.ne[1]}, size), type));
    return {};
  }

  const gguf::File& file_;
  const TowerSpec& spec_;
  const DType type_;
  const Plan plan_;
  gguf::Writer writer_;
};

}  // namespace

Result<void> write_weights(const Projector& projector, DType type, const std::string& path) {
  return WeightsWriter(projector, type).write(path);
}

}  // namespace tempo9::vision
