// Matrix products and activation quantisation in plain C++: the definition that every instruction set agrees with to
// the last bit (numeric contract C1 and C7, spec performance section 2).
//
// Each output element has one f32 accumulator, starting at 0, that takes the weight row's blocks in ascending order:
//   acc = fma(f32(I), dw * dy, acc)          I: exact int32 sum of scale * q * y over the block
//   acc = fma(-f32(M), dmin * dy, acc)       types with mins only; M: exact int32 sum of min * (sum of y)
//   acc = fma(m, dy * f32(sum of y), acc)    Q4_1 and Q5_1 only
// where dw is the block's scale and dy its activations' scale, f32() rounds to nearest even and every product in an
// argument of fma is rounded once. Zero blocks take part like all others.
#include <cfloat>

#include "kernels/isa/scalar/quantize.h"
#include "kernels/kernels.h"
#include "quant/quant.h"

namespace tempo9::kernels::scalar {
namespace {

void quantize(MatView<const float> x, IndexRange rows, const QuantizedRows& out) {
  const int64_t block = out.block();
  const int64_t group = out.sum_group();
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* from = x.data + r * x.stride;
    int8_t* q = out.q + r * out.cols;
    float* d = out.d + r * (out.cols / block);
    int16_t* sums = out.sums + r * (out.cols / group);
    for (int64_t c = 0; c < out.cols; c += block, ++d) {
      if (block == 256) {
        quantize_block<256, 16>(from + c, d, q + c, sums + c / group);
      } else {
        quantize_block<32, 32>(from + c, d, q + c, sums + c / group);
      }
    }
  }
}

// I of one block.
int32_t dot_block(const quant::IntBlock& w, const int8_t* y, int64_t n) {
  int32_t total = 0;
  for (int64_t begin = 0; begin < n; begin += w.group) {
    int32_t dot = 0;
    for (int64_t i = begin; i < begin + w.group; ++i) dot += w.q[i] * y[i];
    total += w.scale[begin / w.group] * dot;
  }
  return total;
}

// M of one 256-value block; sums are the activations' sums over 16.
int32_t min_block(const quant::IntBlock& w, const int16_t* sums) {
  int32_t total = 0;
  for (int64_t i = 0; i < 16; ++i) total += w.min[i * 16 / w.group] * sums[i];
  return total;
}

void matmul_quant(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
                  std::byte* /*scratch*/) {
  const quant::QuantType& type = *quant::find_type(weight.dtype);
  const tensor::DTypeInfo& info = tensor::dtype_info(weight.dtype);
  const int64_t n = info.block_elements;
  const int64_t n_blocks = weight.cols / n;
  const int64_t sums_per_block = n / x.sum_group();
  quant::IntBlock w;
  for (int64_t r = weight_rows.begin; r < weight_rows.end; ++r) {
    for (int64_t i = 0; i < x.rows; ++i) out.data[i * out.stride + r] = 0.0f;
    for (int64_t b = 0; b < n_blocks; ++b) {
      type.unpack(weight.row(r) + b * info.block_bytes, w);
      for (int64_t i = 0; i < x.rows; ++i) {
        float& acc = out.data[i * out.stride + r];
        const int64_t row = x.source(i);
        const float dy = x.d[row * n_blocks + b];
        const int16_t* sums = x.sums + (row * n_blocks + b) * sums_per_block;
        acc = __builtin_fmaf(static_cast<float>(dot_block(w, x.q + row * x.cols + b * n, n)), w.d * dy, acc);
        if (type.has_min) acc = __builtin_fmaf(-static_cast<float>(min_block(w, sums)), w.dmin * dy, acc);
        if (type.has_m) acc = __builtin_fmaf(w.m, dy * static_cast<float>(sums[0]), acc);
      }
    }
  }
}

float load_float(const std::byte* row, int64_t i, tensor::DType dtype) {
  uint32_t bits = 0;
  if (dtype == tensor::DType::kF32) {
    __builtin_memcpy(&bits, row + 4 * i, 4);
    return std::bit_cast<float>(bits);
  }
  __builtin_memcpy(&bits, row + 2 * i, 2);
  if (dtype == tensor::DType::kF16) return quant::f16_to_f32(static_cast<uint16_t>(bits));
  return std::bit_cast<float>(bits << 16);
}

// Float weights: lane j of 16 sums columns j, j + 16, ... in ascending order by fma, as if the row were continued with
// zeros to a multiple of 16; then the lanes are added 8 + 8, 4 + 4, 2 + 2, 1 + 1.
void matmul_float(const WeightView& weight, IndexRange weight_rows, const FloatRows& x, MatView<float> out,
                  std::byte* /*scratch*/) {
  for (int64_t r = weight_rows.begin; r < weight_rows.end; ++r) {
    for (int64_t i = 0; i < x.rows; ++i) {
      float lanes[16] = {};
      for (int64_t c = 0; c < (weight.cols + 15) / 16 * 16; ++c) {
        const bool inside = c < weight.cols;
        const float w = inside ? load_float(weight.row(r), c, weight.dtype) : 0.0f;
        lanes[c % 16] = __builtin_fmaf(w, inside ? x.row(i)[c] : 0.0f, lanes[c % 16]);
      }
      for (int half = 8; half > 0; half /= 2) {
        for (int j = 0; j < half; ++j) lanes[j] += lanes[j + half];
      }
      out.data[i * out.stride + r] = lanes[0];
    }
  }
}

MatMulQuant find_quant(tensor::DType) { return matmul_quant; }
MatMulFloat find_float(tensor::DType) { return matmul_float; }
bool is_native(tensor::DType) { return false; }
size_t scratch_bytes(const WeightView&) { return 0; }

}  // namespace

extern const MatMulKernels kMatMulKernels;
const MatMulKernels kMatMulKernels = {
    .quantize = quantize,
    .quant = find_quant,
    .floating = find_float,
    .is_native = is_native,
    .scratch_bytes = scratch_bytes,
    .row_granule = 1,
    .tile_rows = 0,
    .write_tiles = nullptr,
};

}  // namespace tempo9::kernels::scalar
