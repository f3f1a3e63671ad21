// The last check of a vision tower: a question about an image, asked with the tower's rows and with exact ones.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "vision/encoder.h"

namespace tempo9::cli {

// Mean KL divergence, in nats, of the predictions over question and answer.
inline constexpr double kMaxQuestionKl = 0.02;

// Loads `model`, lets it answer about a made-up image by the exact rows, and compares what it predicts at each step by
// the tower's. Returns a report with the answer. Errors: the model's; kInvalidInput when its rows are of another width
// or the predictions are further apart than kMaxQuestionKl.
Result<nlohmann::ordered_json> ask_about_image(const std::string& model, int n_threads, vision::ImageEncoder& tower,
                                               vision::ImageEncoder& exact);

}  // namespace tempo9::cli
