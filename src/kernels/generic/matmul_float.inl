// Products of F32, F16 and BF16 weights, and the quantising of activations. Text over the ISA's matmul_vec.h; included
// by isa/<name>/matmul.cpp inside an unnamed namespace. The numbers are those of isa/scalar/matmul.cpp, to the last
// bit.

// A float weight type: its elements in memory and how 16 of them are read.
struct FloatF32 {
  using Element = float;
  T9_INLINE static Float16s load(const float* p) { return load_16(p); }
};
struct FloatF16 {
  using Element = uint16_t;
  T9_INLINE static Float16s load(const uint16_t* p) { return load_16_f16(p); }
};
struct FloatBF16 {
  using Element = uint16_t;
  T9_INLINE static Float16s load(const uint16_t* p) { return load_16_bf16(p); }
};

// The first n (below 16) elements at p, continued with zeros.
template <class Element>
struct Padded16 {
  Element values[16] = {};
  T9_INLINE Padded16(const Element* p, int64_t n) { __builtin_memcpy(values, p, static_cast<size_t>(n) * sizeof *p); }
};

// R weight rows from `row` times M activation rows from `first`.
template <class T, int R, int M>
void multiply_floats(const WeightView& weight, int64_t row, const FloatRows& x, int64_t first, MatView<float> out) {
  using Element = typename T::Element;
  const Element* w[R];
  const float* y[M];
  Float16s acc[R][M];
  for (int r = 0; r < R; ++r) {
    w[r] = reinterpret_cast<const Element*>(weight.data + static_cast<size_t>(row + r) * weight.row_bytes);
    for (int m = 0; m < M; ++m) acc[r][m] = zero_16();
  }
  for (int m = 0; m < M; ++m) y[m] = x.row(first + m);
  int64_t c = 0;
  for (; c + 16 <= weight.cols; c += 16) {
    Float16s yy[M];
    for (int m = 0; m < M; ++m) yy[m] = load_16(y[m] + c);
    for (int r = 0; r < R; ++r) {
      const Float16s ww = T::load(w[r] + c);
      for (int m = 0; m < M; ++m) acc[r][m] = mul_add_16(ww, yy[m], acc[r][m]);
    }
  }
  if (const int64_t n = weight.cols - c; n > 0) {
    for (int r = 0; r < R; ++r) {
      const Float16s ww = T::load(Padded16<Element>(w[r] + c, n).values);
      for (int m = 0; m < M; ++m) {
        acc[r][m] = mul_add_16(ww, load_16(Padded16<float>(y[m] + c, n).values), acc[r][m]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int m = 0; m < M; ++m) out.data[(first + m) * out.stride + row + r] = tree_sum_16(acc[r][m]);
  }
}

template <class T, int R>
T9_INLINE void multiply_float_rows(const WeightView& weight, int64_t row, const FloatRows& x, MatView<float> out) {
  for (int64_t i = 0; i < x.rows; i += kFloatTileRows) {
    const int64_t n = x.rows - i < kFloatTileRows ? x.rows - i : kFloatTileRows;
    with_count<kFloatTileRows>(n, [&](auto m) { multiply_floats<T, R, m>(weight, row, x, i, out); });
  }
}

template <class T>
void matmul_float(const WeightView& weight, IndexRange weight_rows, const FloatRows& x, MatView<float> out,
                  std::byte* /*scratch*/) {
  int64_t r = weight_rows.begin;
  for (; r + kFloatTileWeights <= weight_rows.end; r += kFloatTileWeights) {
    multiply_float_rows<T, kFloatTileWeights>(weight, r, x, out);
  }
  for (; r < weight_rows.end; ++r) multiply_float_rows<T, 1>(weight, r, x, out);
}

MatMulFloat find_float(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kF32:
      return matmul_float<FloatF32>;
    case tensor::DType::kF16:
      return matmul_float<FloatF16>;
    case tensor::DType::kBF16:
      return matmul_float<FloatBF16>;
    default:
      return nullptr;
  }
}

// ---- Quantising activations -----------------------------------------------------------------------------------------

void quantize(MatView<const float> x, IndexRange rows, const QuantizedRows& out) {
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* from = x.data + r * x.stride;
    int8_t* q = out.q + r * out.cols;
    if (out.format == ActFormat::kA256) {
      float* d = out.d + r * (out.cols / 256);
      int16_t* sums = out.sums + r * (out.cols / 16);
      for (int64_t c = 0; c < out.cols; c += 256) quantize_block<256, 16>(from + c, d + c / 256, q + c, sums + c / 16);
    } else {
      float* d = out.d + r * (out.cols / 32);
      int16_t* sums = out.sums + r * (out.cols / 32);
      for (int64_t c = 0; c < out.cols; c += 32) quantize_block<32, 32>(from + c, d + c / 32, q + c, sums + c / 32);
    }
  }
}
