// From a neutral request to the engine's: the conversation rendered by the model's template, as token ids; and how its
// answer is to be read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/request.h"
#include "server/answer_reader.h"
#include "server/app.h"
#include "server/chat_request.h"

namespace tempo9::server {

// Who asks, for logs and for fair queueing.
struct Sender {
  std::string request_id;
  std::string route;
  std::string client;
};

struct Prepared {
  engine::Request engine_request;
  std::vector<vision::SeenImage> images;  // those of the request, whose rows are still to be had
  AnswerOptions answer;
};

// One for each choice, prompt by prompt. May take long (a megabyte of prompt is tokenized here): not for network
// threads. `is_cancelled` is asked now and then. Errors: the template's and the tokenizer's; kInvalidInput with
// overflow() when the prompt leaves no room for a token, with the reason invalid_image for an image that is none.
Result<std::vector<Prepared>> prepare(const ChatRequest& request, const App& app, const Sender& sender,
                                      const std::function<bool()>& is_cancelled);

// How many tokens the prompt has, however many fit the context. The same number, and the same errors otherwise, as
// `prepare` gives.
Result<int64_t> count_prompt_tokens(const ChatRequest& request, const ServerContext& context,
                                    const std::function<bool()>& is_cancelled);

// The control tokens of a vocabulary that the dialect's parser must see as text. Walks the vocabulary.
std::vector<int32_t> find_marker_tokens(const tokenizer::Tokenizer& tokenizer, const chat::tools::Dialect& dialect);

}  // namespace tempo9::server
