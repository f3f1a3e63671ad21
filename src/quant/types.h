// Inside quant/: what each type's file defines, and the loops they share.
#pragma once

#include "quant/blocks.h"
#include "quant/quant.h"

namespace tempo9::quant {

// The entry of one usable type, defined in its file: template <> QuantType describe<DType::kQ4_0>() { … }.
template <tensor::DType dtype>
QuantType describe();

#define T9_DECLARE_kUsable(name) \
  template <>                    \
  QuantType describe<tensor::DType::k##name>();
#define T9_DECLARE_kPlain(name)
#define T9_DECLARE_kRefused(name)
#define T9_DECLARE_kRemoved(name)
#define T9_DECLARE_kActivation(name)
#define T9_DTYPE(name, id, elements, bytes, state) T9_DECLARE_##state(name)
#include "tensor/dtypes.def"
#undef T9_DTYPE
#undef T9_DECLARE_kUsable
#undef T9_DECLARE_kPlain
#undef T9_DECLARE_kRefused
#undef T9_DECLARE_kRemoved
#undef T9_DECLARE_kActivation

// What is added to d * scale * q: nothing, -dmin * min of the group, or m.
enum class Offset { kNone, kMin, kConstant };

// The three functions of a QuantType, made from a type's own description `T`:
//   T::Block                 the packed block
//   T::kElements, T::kGroup  its elements, and how many of them share a sub-scale
//   T::kOffset               its additive part
//   T::unpack(block, out)    sets q, d and what the type has of scale, min, dmin and m
//   T::encode(values, out)   optional: encodes kElements values
template <class T>
void unpack_block(const std::byte* block, IntBlock& out) {
  out.dmin = 0.0f;
  out.m = 0.0f;
  out.group = T::kGroup;
  for (int64_t group = 0; group < T::kElements / T::kGroup; ++group) {
    out.scale[group] = 1;
    out.min[group] = 0;
  }
  T::unpack(*reinterpret_cast<const typename T::Block*>(block), out);
}

// Decodes through the integer form, so that both agree by construction. Evaluated in f32 as (d * scale) * q, then the
// offset (spec gguf 4.3).
template <class T>
void decode_blocks(const std::byte* blocks, float* out, int64_t n) {
  IntBlock values;
  for (int64_t begin = 0; begin < n; begin += T::kElements, blocks += sizeof(typename T::Block)) {
    unpack_block<T>(blocks, values);
    for (int64_t group = 0; group < T::kElements / T::kGroup; ++group) {
      const float scale = values.d * static_cast<float>(values.scale[group]);
      const float min = values.dmin * static_cast<float>(values.min[group]);
      for (int64_t i = group * T::kGroup; i < (group + 1) * T::kGroup; ++i) {
        const float product = scale * static_cast<float>(values.q[i]);
        if constexpr (T::kOffset == Offset::kNone) out[begin + i] = product;
        if constexpr (T::kOffset == Offset::kMin) out[begin + i] = product - min;
        if constexpr (T::kOffset == Offset::kConstant) out[begin + i] = product + values.m;
      }
    }
  }
}

template <class T>
void encode_blocks(const float* values, std::byte* out, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += T::kElements, out += sizeof(typename T::Block)) {
    T::encode(values + begin, *reinterpret_cast<typename T::Block*>(out));
  }
}

template <class T>
QuantType block_type(tensor::DType dtype) {
  QuantType type{.dtype = dtype,
                 .decode = decode_blocks<T>,
                 .encode = nullptr,
                 .unpack = unpack_block<T>,
                 .has_m = T::kOffset == Offset::kConstant,
                 .has_min = T::kOffset == Offset::kMin};
  if constexpr (requires { T::encode; }) type.encode = encode_blocks<T>;
  return type;
}

}  // namespace tempo9::quant
