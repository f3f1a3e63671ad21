// The vision tower that the main command is given, fitted to the model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/serve_options.h"
#include "cli/served_model.h"
#include "server/server.h"
#include "vision/encoder.h"
#include "vision/image_service.h"

namespace tempo9::cli {

// In the order of creation; destroyed in reverse. Without a tower all of it is empty.
struct VisionInput {
  std::unique_ptr<vision::ImageEncoder> encoder;
  std::unique_ptr<vision::ImageService> service;
  std::optional<server::ImageInput> input;

  const server::ImageInput* get() const { return input ? &*input : nullptr; }
};

// Without --tower there is nothing to open. What is kept of images is taken out of `served`'s memory budget. Errors:
// those of Tower::open; kUnsupported for a model that takes no images; kInvalidInput for another model's tower.
Result<VisionInput> open_vision(const ServeOptions& options, ServedModel& served);

}  // namespace tempo9::cli
