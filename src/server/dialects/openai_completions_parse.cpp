// The wire form of a request for text completions.
#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "server/dialects/openai_completions.h"
#include "server/dialects/openai_fields.h"
#include "server/field_reader.h"
#include "server/limits.h"

namespace tempo9::server {

namespace {

constexpr int64_t kDefaultMaxTokens = 16;
constexpr int64_t kMaxLogprobs = 5;

std::vector<int32_t> read_ids(FieldReader& fields, const std::string& name, const Json& list) {
  std::vector<int32_t> ids;
  if (list.empty()) fields.refuse_value(name, "it is empty");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string item = fmt::format("{}[{}]", name, i);
    if (!list[i].is_number_integer()) {
      fields.refuse_type(item, "a token id", list[i]);
      return ids;
    }
    const auto id = list[i].get<int64_t>();
    if (id < 0 || id > std::numeric_limits<int32_t>::max()) {
      fields.refuse_value(item, fmt::format("{} is no token id", id));
      return ids;
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

// A string, a list of strings, a list of token ids, or a list of such lists.
std::vector<RawPrompt> read_prompts(FieldReader& fields) {
  std::vector<RawPrompt> prompts;
  const Json* prompt = fields.find("prompt");
  if (!prompt) {
    fields.refuse_missing("prompt");
  } else if (prompt->is_string()) {
    prompts.push_back({.ids = {}, .text = prompt->get<std::string>()});
  } else if (!prompt->is_array()) {
    fields.refuse_type("prompt", "a string or an array", *prompt);
  } else if (prompt->empty() || prompt->front().is_number()) {
    prompts.push_back({.ids = read_ids(fields, "prompt", *prompt), .text = {}});
  } else {
    for (size_t i = 0; i < prompt->size(); ++i) {
      const Json& item = (*prompt)[i];
      const std::string name = fmt::format("prompt[{}]", i);
      if (item.is_string()) {
        prompts.push_back({.ids = {}, .text = item.get<std::string>()});
      } else if (item.is_array()) {
        prompts.push_back({.ids = read_ids(fields, name, item), .text = {}});
      } else {
        fields.refuse_type(name, "a string or an array of token ids", item);
        break;
      }
    }
  }
  return prompts;
}

void read_choices(FieldReader& fields, ChatRequest& request) {
  request.n_choices = fields.find_integer("n", {1, kMaxOpenAiChoices}).value_or(1);
  const auto n_prompts = static_cast<int64_t>(request.raw_prompts.size());
  if (n_prompts * request.n_choices > kMaxOpenAiChoices) {
    fields.refuse_value(request.n_choices > 1 ? "n" : "prompt",
                        fmt::format("{} prompts with {} choices each are more than {} answers", n_prompts,
                                    request.n_choices, kMaxOpenAiChoices));
  }
  const auto best_of = fields.find_integer("best_of", {.min = 1});
  if (best_of && *best_of != request.n_choices) {
    fields.refuse_unsupported("best_of", "choosing among more answers than 'n'");
  }
}

void read_logprobs(FieldReader& fields, ChatRequest& request) {
  const auto logprobs = fields.find_integer("logprobs", {0, kMaxLogprobs});
  request.logprobs = logprobs.has_value();
  request.top_logprobs = static_cast<int32_t>(logprobs.value_or(0));
  request.echoes_prompt = fields.find_bool("echo").value_or(false);
  if (request.logprobs && request.echoes_prompt) {
    fields.refuse_unsupported("echo", "the prompt together with log-probabilities");
  }
}

}  // namespace

Result<ChatRequest> parse_openai_completion(std::string body, const App& app) {
  T9_TRY(document, parse_json_object(std::move(body)));
  FieldReader fields(document);
  ChatRequest request;
  read_openai_frame(fields, app, request);
  request.raw_prompts = read_prompts(fields);
  read_choices(fields, request);
  request.sampling = read_openai_sampling(fields);
  request.max_tokens = fields.find_integer("max_tokens", {.min = 1}).value_or(kDefaultMaxTokens);
  request.stop = fields.find_strings("stop", kMaxStopStrings);
  read_logprobs(fields, request);
  read_openai_response_format(fields, request);
  if (!fields.find_string("suffix").value_or("").empty()) fields.refuse_unsupported("suffix", "fill-in-the-middle");
  T9_TRY_VOID(fields.result());
  return request;
}

}  // namespace tempo9::server
