#include "models/hyperparameters.h"

#include <fmt/format.h>

#include <cmath>

namespace tempo9::models {
namespace {

constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxContext = (int64_t{1} << 31) - 1;  // slots and positions are int32

Result<int64_t> in_range(std::string_view key, int64_t value, int64_t min, int64_t max) {
  if (value < min || value > max) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be {} to {}", key, value, min, max));
  }
  return value;
}

// A key that must be there makes the file invalid when it is not.
template <class T>
Result<T> required(Result<T> value) {
  if (!value && value.error().code() == ErrorCode::kNotFound) {
    return fail(ErrorCode::kInvalidInput, value.error().message());
  }
  return value;
}

Result<double> as_positive(std::string_view key, double value) {
  const float narrow = static_cast<float>(value);
  if (!std::isfinite(narrow) || narrow <= 0.0f) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be finite and above 0", key, value));
  }
  return value;
}

// The width of a head when the file does not give it: the model's width split over the heads.
Result<int64_t> read_head_dim(const Keys& keys, std::string_view key, int64_t n_embd, int64_t n_heads) {
  T9_TRY(stored, keys.find_count(key, 0));
  if (stored > 0) return stored;
  if (n_embd % n_heads != 0) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {} is missing, and {} of {} is not a multiple of {} heads", keys.full_name(key),
                            keys.full_name("embedding_length"), n_embd, n_heads));
  }
  return n_embd / n_heads;
}

}  // namespace

Keys::Keys(const gguf::Metadata& metadata, std::string_view architecture)
    : metadata_(metadata), prefix_(std::string(architecture) + ".") {}

Result<int64_t> Keys::read_count(std::string_view key, int64_t max) const {
  T9_TRY(value, required(metadata_.read_int(full_name(key))));
  return in_range(full_name(key), value, 1, max);
}

Result<int64_t> Keys::find_count(std::string_view key, int64_t fallback, int64_t max) const {
  T9_TRY(value, metadata_.find_int(full_name(key)));
  return value ? in_range(full_name(key), *value, 0, max) : fallback;
}

Result<std::vector<int64_t>> Keys::read_counts(std::string_view key, int64_t n_layers,
                                               const std::vector<int64_t>& fallback, int64_t min) const {
  T9_TRY(values, metadata_.find_int_per_layer(full_name(key), n_layers));
  if (!values) {
    if (!fallback.empty()) return fallback;
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is missing", full_name(key)));
  }
  for (const int64_t value : *values) T9_TRY_VOID(in_range(full_name(key), value, min, kMaxCount));
  return *std::move(values);
}

Result<double> Keys::read_positive(std::string_view key) const {
  T9_TRY(value, required(metadata_.read_float(full_name(key))));
  return as_positive(full_name(key), value);
}

Result<double> Keys::find_positive(std::string_view key, double fallback) const {
  T9_TRY(value, metadata_.find_float(full_name(key)));
  return value ? as_positive(full_name(key), *value) : fallback;
}

Result<double> Keys::find_finite(std::string_view key, double fallback) const {
  T9_TRY(value, metadata_.find_float(full_name(key)));
  if (value && !std::isfinite(static_cast<float>(*value))) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be finite", full_name(key), *value));
  }
  return value.value_or(fallback);
}

Result<double> Keys::find_non_negative(std::string_view key, double fallback) const {
  T9_TRY(value, find_finite(key, fallback));
  if (value >= 0.0) return value;
  return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be 0 or more", full_name(key), value));
}

Result<DecoderParams> read_decoder_params(const Keys& keys, const DecoderOptions& options) {
  DecoderParams params;
  if (options.needs_head_dims) {
    T9_TRY_VOID(keys.read_count("attention.key_length"));
    T9_TRY_VOID(keys.read_count("attention.value_length"));
  }
  T9_TRY(n_layers, keys.read_count("block_count", kMaxLayers));
  T9_TRY(context_length, keys.read_count("context_length", kMaxContext));
  T9_TRY(n_embd, keys.read_count("embedding_length"));
  T9_TRY(n_heads, keys.read_counts("attention.head_count", n_layers));
  T9_TRY(n_kv_heads,
         keys.read_counts("attention.head_count_kv", n_layers, n_heads, options.allows_layers_without_kv ? 0 : 1));
  const std::vector<int64_t> no_ff(options.needs_feed_forward ? 0 : static_cast<size_t>(n_layers), 0);
  T9_TRY(n_ff, keys.read_counts("feed_forward_length", n_layers, no_ff));
  T9_TRY(k_head_dim, read_head_dim(keys, "attention.key_length", n_embd, n_heads[0]));
  T9_TRY(v_head_dim, read_head_dim(keys, "attention.value_length", n_embd, n_heads[0]));
  T9_TRY(n_rot, keys.find_count("rope.dimension_count", k_head_dim));
  T9_TRY(rms_eps, keys.read_positive("attention.layer_norm_rms_epsilon"));
  if (n_rot < 2 || n_rot > k_head_dim || n_rot % 2 != 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} is {}, must be even and at most the head size {}",
                                                      keys.full_name("rope.dimension_count"), n_rot, k_head_dim));
  }
  for (size_t i = 0; i < n_heads.size(); ++i) {
    if (n_kv_heads[i] > 0 && n_heads[i] % n_kv_heads[i] != 0) {
      return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} of {} is not a multiple of {} of {} in layer {}",
                                                        keys.full_name("attention.head_count"), n_heads[i],
                                                        keys.full_name("attention.head_count_kv"), n_kv_heads[i], i));
    }
    params.layers.push_back({.n_heads = n_heads[i], .n_kv_heads = n_kv_heads[i], .n_ff = n_ff[i]});
  }
  params.context_length = context_length;
  params.n_embd = n_embd;
  params.k_head_dim = k_head_dim;
  params.v_head_dim = v_head_dim;
  params.n_rot = n_rot;
  params.rms_eps = static_cast<float>(rms_eps);
  return params;
}

Result<std::vector<bool>> read_sliding_layers(const Keys& keys, int64_t n_layers,
                                              std::optional<int64_t> default_period) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  const gguf::MetaValue* stored = keys.metadata().find(keys.full_name(kKey));
  if (stored && std::holds_alternative<gguf::Array>(*stored)) {
    T9_TRY(flags, keys.metadata().read_bools(keys.full_name(kKey)));
    if (static_cast<int64_t>(flags.size()) == n_layers) return flags;
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {} has {} elements, the model has {} layers",
                                                      keys.full_name(kKey), flags.size(), n_layers));
  }
  int64_t period = default_period.value_or(0);
  if (stored || !default_period) {
    T9_TRY(stored_period, keys.read_count(kKey));
    period = stored_period;
  }
  std::vector<bool> flags;
  for (int64_t i = 0; i < n_layers; ++i) flags.push_back((i + 1) % period != 0);
  return flags;
}

Result<void> refuse_experts(const Keys& keys) {
  T9_TRY(n_experts, keys.find_count("expert_count", 0));
  if (n_experts == 0) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("metadata {} is {}: mixtures of experts are not implemented",
                                                   keys.full_name("expert_count"), n_experts));
}

}  // namespace tempo9::models
