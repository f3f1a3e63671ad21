// The types of keys and values by name, as flags and reports have them.
#pragma once

#include <string_view>

#include "tensor/kv_view.h"

namespace tempo9::tensor {

inline constexpr KvType kKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kQ8_0};

constexpr std::string_view kv_type_name(KvType type) {
  return type == KvType::kF32 ? "f32" : type == KvType::kF16 ? "f16" : "q8_0";
}

}  // namespace tempo9::tensor
