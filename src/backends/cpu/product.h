// One product of a pass: activation rows in the form that the weight asks for, times weight rows.
#pragma once

#include "backends/cpu/pass.h"

namespace tempo9::backends::cpu {

// One of the two, by the product's format.
struct ActRows {
  kernels::QuantizedRows quantized;
  kernels::FloatRows floats;
};

// All rows of the cell that `product` reads.
ActRows act_rows(const Product& product, const Pass& pass);
ActRows slice(const ActRows& x, tensor::IndexRange rows);
ActRows pick(const ActRows& x, const int32_t* rows, int64_t n);

template <class T>
tensor::MatView<T> slice(const tensor::MatView<T>& x, tensor::IndexRange rows) {
  return {x.row(rows.begin), rows.size(), x.cols, x.stride};
}

// out(i, r) = weight row r times row i of x (+ bias[r], if there is one), for r in `weight_rows`. `weight` is product's
// or a part of it, and `bias` belongs to its first row.
void multiply(const Product& product, const tensor::WeightView& weight, const float* bias,
              tensor::IndexRange weight_rows, const ActRows& x, tensor::MatView<float> out, const Pass& pass,
              int worker);

}  // namespace tempo9::backends::cpu
