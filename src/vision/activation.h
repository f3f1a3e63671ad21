// Activations of towers, one value at a time.
#pragma once

#include <cmath>
#include <numbers>

#include "vision/tower_spec.h"

namespace tempo9::vision {

inline double activation_of(Activation activation, double x) {
  switch (activation) {
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluQuick:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kSilu:
      break;
  }
  return x / (1.0 + std::exp(-x));
}

}  // namespace tempo9::vision
