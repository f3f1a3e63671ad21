#include "models/rope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace tempo9::models {
namespace {

// Growth of yarn's magnitude with the factor.
double yarn_magnitude(double factor, double multiplier) {
  return factor <= 1.0 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

Result<void> read_yarn(const Keys& keys, RopeScaling& scaling) {
  T9_TRY(attn_factor, keys.find_positive("rope.scaling.attn_factor", 1.0));
  T9_TRY(fixed_magnitude, keys.find_finite("rope.scaling.yarn_attn_factor", 0.0));
  T9_TRY(log_multiplier, keys.find_finite("rope.scaling.yarn_log_multiplier", 0.0));
  T9_TRY(ext_factor, keys.find_finite("rope.scaling.yarn_ext_factor", 1.0));
  T9_TRY(beta_fast, keys.find_positive("rope.scaling.yarn_beta_fast", 32.0));
  T9_TRY(beta_slow, keys.find_positive("rope.scaling.yarn_beta_slow", 1.0));
  scaling.ext_factor = ext_factor;
  scaling.beta_fast = beta_fast;
  scaling.beta_slow = beta_slow;
  scaling.magnitude = attn_factor * yarn_magnitude(scaling.factor, 1.0);
  if (log_multiplier != 0.0) scaling.magnitude /= yarn_magnitude(scaling.factor, log_multiplier);
  if (fixed_magnitude > 0.0) scaling.magnitude = fixed_magnitude;
  return {};
}

// How much of each pair's frequency yarn leaves unscaled: 1 for fast pairs, 0 for slow ones.
class YarnMix {
 public:
  YarnMix(const RopeScaling& scaling, double base, int64_t n_rot) : ext_factor_(scaling.ext_factor) {
    const double dims = static_cast<double>(n_rot);
    const auto pair_of_turns = [&](double turns) {
      return dims * std::log(scaling.original_context / (2.0 * std::numbers::pi * turns)) / (2.0 * std::log(base));
    };
    low_ = pair_of_turns(scaling.beta_fast);
    high_ = pair_of_turns(scaling.beta_slow);
    if (scaling.whole_pairs) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(0.0, low_);
    high_ = std::min(dims - 1.0, high_);
  }

  double operator()(int64_t pair) const {
    const double ramp = (static_cast<double>(pair) - low_) / std::max(0.001, high_ - low_);
    return ext_factor_ * (1.0 - std::clamp(ramp, 0.0, 1.0));
  }

 private:
  double ext_factor_;
  double low_ = 0.0;
  double high_ = 0.0;
};

}  // namespace

Result<RopeScaling> read_rope_scaling(const Keys& keys, int64_t context_length) {
  RopeScaling scaling;
  T9_TRY(original_context, keys.find_count("rope.scaling.original_context_length", 0, int64_t{1} << 31));
  scaling.original_context = static_cast<double>(original_context > 0 ? original_context : context_length);
  T9_TRY(type, keys.metadata().find_string(keys.full_name("rope.scaling.type")));
  if (type == "none") return scaling;
  if (type && type != "linear" && type != "yarn") {
    return fail(ErrorCode::kUnsupported,
                fmt::format("metadata {} is \"{}\": only none, linear and yarn are implemented",
                            keys.full_name("rope.scaling.type"), *type));
  }
  T9_TRY(legacy_factor, keys.find_finite("rope.scale_linear", 1.0));
  T9_TRY(factor, keys.find_finite("rope.scaling.factor", legacy_factor));
  if (factor < 0.0) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is {}, must be above 0", keys.full_name("rope.scaling.factor"), factor));
  }
  scaling.factor = factor == 0.0 ? 1.0 : factor;
  if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    T9_TRY_VOID(read_yarn(keys, scaling));
  }
  return scaling;
}

Result<std::vector<uint8_t>> read_rope_axes(const Keys& keys, int64_t n_rot, RopeSections order) {
  const std::string key = keys.full_name("rope.dimension_sections");
  if (!keys.metadata().contains(key)) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is missing", key));
  }
  T9_TRY(sections, keys.metadata().read_ints(key));
  const int64_t n_pairs = n_rot / 2;
  int64_t left = n_pairs;
  bool fits = sections.size() >= 3;
  for (size_t i = 0; i < sections.size() && fits; ++i) {
    fits = sections[i] >= 0 && sections[i] <= (i < 3 ? left : 0);
    left -= fits ? sections[i] : 0;
  }
  if (!fits || left != 0) {
    sections.resize(std::min<size_t>(sections.size(), 4));
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} begins [{}], must be three counts whose sum is the {} rotated pairs", key,
                            fmt::join(sections, ", "), n_pairs));
  }
  const int64_t time = sections[0], height = sections[1], width = sections[2];
  std::vector<uint8_t> axes(static_cast<size_t>(n_pairs), 0);
  for (int64_t i = 0; i < n_pairs; ++i) {
    uint8_t& axis = axes[static_cast<size_t>(i)];
    if (order == RopeSections::kContiguous) {
      axis = i < time ? 0 : i < time + height ? 1 : 2;
    } else if (i % 3 == 1 && i < 3 * height) {
      axis = 1;
    } else if (i % 3 == 2 && i < 3 * width) {
      axis = 2;
    }
  }
  return axes;
}

Result<RopeParams> read_rope_params(const Keys& keys, const DecoderParams& decoder, tensor::RopePairs pairs) {
  T9_TRY(base, keys.find_positive("rope.freq_base", 10000.0));
  T9_TRY(scaling, read_rope_scaling(keys, decoder.context_length));
  return RopeParams{
      .base = base, .n_rot = decoder.n_rot, .head_dim = decoder.k_head_dim, .pairs = pairs, .scaling = scaling};
}

Result<graph::Builder::RopeSpec> make_rope(const RopeParams& params) {
  const RopeScaling& scaling = params.scaling;
  const int64_t n_pairs = params.n_rot / 2;
  T9_CHECK(params.divisors.empty() || static_cast<int64_t>(params.divisors.size()) == n_pairs);
  graph::Builder::RopeSpec spec{.frequencies = {},
                                .head_dim = params.head_dim,
                                .pairs = params.pairs,
                                .magnitude = static_cast<float>(scaling.magnitude),
                                .axes = params.axes};
  const YarnMix yarn_mix(scaling, params.base, params.n_rot);
  for (int64_t i = 0; i < n_pairs; ++i) {
    double frequency = std::pow(params.base, -2.0 * static_cast<double>(i) / static_cast<double>(params.n_rot));
    if (!params.divisors.empty()) frequency /= static_cast<double>(params.divisors[static_cast<size_t>(i)]);
    const double mix = scaling.kind == RopeScaling::Kind::kYarn ? yarn_mix(i) : 0.0;
    frequency *= (1.0 - mix) / scaling.factor + mix;
    spec.frequencies.push_back(static_cast<float>(frequency));
    if (!std::isfinite(spec.frequencies.back())) {
      return fail(ErrorCode::kInvalidInput,
                  fmt::format("the rope keys give pair {} the frequency {} (base {}, scaling factor {})", i, frequency,
                              params.base, scaling.factor));
    }
  }
  return spec;
}

}  // namespace tempo9::models
