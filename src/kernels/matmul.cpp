#include "base/check.h"
#include "kernels/kernels.h"

namespace tempo9::kernels {

ActFormat act_format(tensor::DType weight) {
  switch (tensor::dtype_info(weight).block_elements) {
    case 1:
      return ActFormat::kF32;
    case 32:
      return ActFormat::kA32;
    case 256:
      return ActFormat::kA256;
    default:
      T9_CHECK_MSG(false, tensor::dtype_name(weight));
  }
}

}  // namespace tempo9::kernels
