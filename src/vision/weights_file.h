// Writes a tower's weights.gguf (docs/tower-format.md): the projector again, its large matrices in another type.
#pragma once

#include <string>

#include "base/result.h"
#include "tensor/dtype.h"
#include "vision/projector.h"

namespace tempo9::vision {

// `type`: Q8_0, F16 or F32. Matrices that are quantised already stay as they are. Errors: kInvalidInput for weights
// that are not finite or do not fit the type, kIo.
Result<void> write_weights(const Projector& projector, tensor::DType type, const std::string& path);

}  // namespace tempo9::vision
