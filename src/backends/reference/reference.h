// The backend that defines "right": plain C++, one thread, f32 activations, weights decoded exactly, f32 KV. With a KV
// cache of f16 it says what rounding K and V alone does; the cache takes as much memory as one of f32.
#pragma once

#include <memory>

#include "backends/backend.h"

namespace tempo9::backends {

std::unique_ptr<Backend> make_reference_backend();

}  // namespace tempo9::backends
