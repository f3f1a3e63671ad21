// Makes a tower folder from a projector file, if it passes its gates.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "tensor/dtype.h"
#include "vision/encoder.h"

namespace tempo9::vision {

struct ExportOptions {
  tensor::DType weights = tensor::DType::kQ8_0;  // of the large matrices: Q8_0, F16 or F32
  std::optional<int64_t> min_pixels;             // instead of the family's
  std::optional<int64_t> max_pixels;
  int n_threads = 0;  // while the gates run; 0: all cores
  // The third gate: the tower and plain floats, both ready to encode, to a report; an error refuses the tower.
  std::function<Result<nlohmann::ordered_json>(ImageEncoder& tower, ImageEncoder& exact)> end_to_end;
};

// `folder` must not exist, or be empty; it appears whole or not at all. Returns the report of the gates, as
// tower_meta.json has it.
Result<nlohmann::ordered_json> export_tower(const std::string& projector, const std::string& folder,
                                            const ExportOptions& options);

// The gates again, of a tower as it runs here, against its own weights in plain floats. Where there is Core ML and the
// folder has its packages, they are what is checked, and are used from then on. Of `options` only the threads and the
// third gate count. Errors: those of Tower::open and of the gates.
Result<nlohmann::ordered_json> check_tower(const std::string& folder, const ExportOptions& options);

}  // namespace tempo9::vision
