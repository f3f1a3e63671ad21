#include "quant/quant.h"

#include <fmt/format.h>

#include <array>

#include "quant/types.h"

namespace tempo9::quant {
namespace {

using tensor::DType;
using tensor::DTypeState;

constexpr std::string_view kWayOut = "use a Q4_K_M or Q8_0 build of this model";

std::unexpected<Error> refuse(std::string_view tensor_name, ErrorCode code, std::string why) {
  return fail(Error(code, std::move(why)).context(fmt::format("tensor {}", tensor_name)));
}

}  // namespace

std::span<const QuantType> all_types() {
  static const std::array types = {
      describe<DType::kF32>(),  describe<DType::kF16>(),    describe<DType::kBF16>(),   describe<DType::kQ4_0>(),
      describe<DType::kQ4_1>(), describe<DType::kQ5_0>(),   describe<DType::kQ5_1>(),   describe<DType::kQ8_0>(),
      describe<DType::kQ2_K>(), describe<DType::kQ3_K>(),   describe<DType::kQ4_K>(),   describe<DType::kQ5_K>(),
      describe<DType::kQ6_K>(), describe<DType::kIQ4_NL>(), describe<DType::kIQ4_XS>(), describe<DType::kMXFP4>(),
  };
  return types;
}

const QuantType* find_type(DType dtype) {
  for (const QuantType& type : all_types()) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

Result<void> check_weight_type(std::string_view tensor_name, uint32_t id) {
  const tensor::DTypeInfo* info = tensor::find_dtype(id);
  if (info == nullptr) {
    const std::string_view fork = tensor::fork_dtype_name(id);
    if (!fork.empty()) {
      return refuse(tensor_name, ErrorCode::kUnsupported,
                    fmt::format("type {} ({}) is a fork-specific format; {}", id, fork, kWayOut));
    }
    return refuse(tensor_name, ErrorCode::kUnsupported,
                  fmt::format("type {} is unknown: the file is corrupt or newer than this program; {}", id, kWayOut));
  }
  switch (info->state) {
    case DTypeState::kUsable:
      return {};
    case DTypeState::kRefused:
      return refuse(tensor_name, ErrorCode::kUnsupported,
                    fmt::format("type {} ({}) is not supported; {}", info->name, id, kWayOut));
    case DTypeState::kRemoved:
      return refuse(tensor_name, ErrorCode::kUnsupported,
                    fmt::format("type {} ({}) was removed from GGUF; {}", info->name, id, kWayOut));
    case DTypeState::kPlain:
      return refuse(tensor_name, ErrorCode::kInvalidInput,
                    fmt::format("type {} ({}) is for tables and cannot hold weights; {}", info->name, id, kWayOut));
    case DTypeState::kActivation:
      break;
  }
  return refuse(tensor_name, ErrorCode::kInvalidInput,
                fmt::format("type {} ({}) is only used while computing: the file is corrupt", info->name, id));
}

}  // namespace tempo9::quant
