// What becomes of each weight when a program runs on the cpu backend.
#pragma once

#include <string_view>
#include <vector>

#include "kernels/kernels.h"
#include "tensor/program.h"

namespace tempo9::cli {

struct WeightUse {
  bool is_lookup = false;   // rows of it are decoded: the embedding table
  bool is_product = false;  // multiplied with rows of activations
  bool is_vector = false;   // read as plain floats: norm weights, biases, small tables
};
// One for each of program.weights.
std::vector<WeightUse> weight_uses(const tensor::Program& program);

// How a product with weights of a type is computed with an instruction set: "int8" (a kernel of its own, activations as
// int8), "int8 after unpacking" (the same sums block by block, without a kernel of its own), "f32" (float weights).
// REQUIRES: the type is usable.
std::string_view product_kernel(const kernels::Isa& isa, tensor::DType dtype);

}  // namespace tempo9::cli
