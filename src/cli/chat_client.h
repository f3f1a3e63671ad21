// A conversation with a server, over its own HTTP API: POST /v1/chat/completions, streamed.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/http_stream.h"

namespace tempo9::cli {

struct ChatParameters {
  std::string system;       // empty: none
  double temperature = -1;  // below 0: the server's default
  int64_t max_tokens = 0;   // 0: to the end of the context
};

// What an answer cost.
struct ChatCost {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  double first_token_s = 0.0;      // from the request on
  double tokens_per_second = 0.0;  // of those after the first; 0 when they were too few to tell
  bool is_cut = false;             // it ended at a limit
};

// Where the answer goes while it is written. False: nobody takes it any more.
struct ChatSink {
  std::function<bool(std::string_view)> text;
  std::function<void(std::string_view)> thought;
};

class ChatClient {
 public:
  ChatClient(HttpAddress address, ChatParameters parameters);

  // The name of the model that is served there. Errors: kIo.
  Result<std::string> model_name() const;
  // Says `text` and gives the answer to `sink` as it comes. What was said and answered is then part of the
  // conversation; after an error it is not, but for kCancelled (once `interrupt_fd` can be read, or the sink takes no
  // more), where the answer so far is kept. Errors: those of HttpStream, and what the server says is wrong.
  Result<ChatCost> say(std::string text, const ChatSink& sink, int interrupt_fd);
  // Begins anew.
  void reset();

 private:
  struct Answer;

  const HttpAddress address_;
  const ChatParameters parameters_;
  nlohmann::json messages_;
};

}  // namespace tempo9::cli
