// An executor as an encoder of images: preprocessing before, the order of tokens after, one image at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vision/encoder.h"
#include "vision/executor.h"
#include "vision/tower_folder.h"

namespace tempo9::vision {

// Images must fit `buckets` (limit_to_buckets). With `pads`, each is padded to its bucket; without, only where the
// executor's shapes are fixed.
std::unique_ptr<ImageEncoder> make_encoder(std::unique_ptr<Executor> executor, std::vector<Bucket> buckets,
                                           std::string identity, bool pads = false);

}  // namespace tempo9::vision
