#include "server/dialects/openai_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tempo9::server {

namespace {

constexpr double kMaxLogitBias = 100.0;

std::vector<std::pair<int32_t, float>> read_logit_bias(FieldReader& fields) {
  const Json* object = fields.find_object("logit_bias");
  if (!object) return {};
  std::vector<std::pair<int32_t, float>> biases;
  for (const auto& [key, value] : object->items()) {
    int32_t token = -1;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), token);
    const std::string name = "logit_bias." + key;
    if (problem != std::errc() || end != key.data() + key.size() || token < 0) {
      fields.refuse_value(name, "the key is not a token id");
    } else if (!value.is_number()) {
      fields.refuse_type(name, "a number", value);
    } else if (std::abs(value.get<double>()) > kMaxLogitBias) {
      fields.refuse_value(name, fmt::format("{} is not between -100 and 100", value.get<double>()));
    } else {
      biases.emplace_back(token, value.get<float>());
    }
  }
  return biases;
}

}  // namespace

void read_openai_frame(FieldReader& fields, const App& app, ChatRequest& request) {
  request.model = fields.find_string("model").value_or(app.context.model.name);
  request.stream = fields.find_bool("stream").value_or(false);
  request.include_usage = fields.nested("stream_options").find_bool("include_usage").value_or(false);
}

SamplingFields read_openai_sampling(FieldReader& fields) {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  SamplingFields sampling;
  sampling.temperature = fields.find_number("temperature", {0, 2});
  sampling.top_p = fields.find_number("top_p", {0, 1});
  sampling.top_k = fields.find_integer("top_k", {-kMaxInt32, kMaxInt32});
  sampling.min_p = fields.find_number("min_p", {0, 1});
  const NumberRange positive{.min = 0, .includes_min = false};
  sampling.repetition_penalty = fields.find_number("repetition_penalty", positive);
  const auto alias = fields.find_number("repeat_penalty", positive);
  if (!sampling.repetition_penalty) sampling.repetition_penalty = alias;
  sampling.presence_penalty = fields.find_number("presence_penalty", {-2, 2});
  sampling.frequency_penalty = fields.find_number("frequency_penalty", {-2, 2});
  sampling.seed = fields.find_integer("seed");
  sampling.logit_bias = read_logit_bias(fields);
  if (const auto typical_p = fields.find_number("typical_p", {0, 1}); typical_p && *typical_p != 1.0) {
    fields.refuse_unsupported("typical_p", "typical sampling");
  }
  return sampling;
}

void read_openai_response_format(FieldReader& fields, ChatRequest& request) {
  FieldReader format = fields.nested("response_format");
  const auto type = format.find_string("type");
  if (!type || *type == "text") return;
  if (*type == "json_object") {
    // With a schema beside it, as other local servers take it: left out, the answer would be held to less than was
    // asked.
    const Json* schema = format.find_object("schema");
    request.output_schema = OutputSchema{.schema = schema ? *schema : Json{{"type", "object"}}, .is_strict = false};
  } else if (*type == "json_schema") {
    FieldReader described = format.nested("json_schema");
    const Json* schema = described.find_object("schema");
    const bool is_strict = described.find_bool("strict").value_or(false);
    if (schema) {
      request.output_schema = OutputSchema{.schema = *schema, .is_strict = is_strict};
    } else {
      described.refuse_missing("schema");
    }
  } else {
    format.refuse_value("type", fmt::format("'{}' is not text, json_object or json_schema", *type));
  }
}

}  // namespace tempo9::server
