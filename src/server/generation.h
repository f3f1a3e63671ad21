// An answer that the engine makes: parsed, prepared and queued on a worker thread, then read (answer_reader.h) and
// written update by update in the dialect's form. The same for every dialect.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/answer_update.h"
#include "server/app.h"
#include "server/chat_request.h"
#include "server/http/answer.h"

namespace tempo9::server {

// One answer's way to the wire. Called from one thread at a time.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // The request is queued: what is sent at once, before there is a first token.
  virtual std::optional<http::Piece> begin(int64_t prompt_tokens) = 0;
  // The ids of a prompt, before begin(); for dialects that hand them out.
  virtual void note_prompt(const std::vector<int32_t>&) {}
  // What comes next; nothing when it calls for no bytes. The last update of the last choice, and an error of any, give
  // a last piece.
  virtual std::optional<http::Piece> write(const AnswerUpdate& update) = 0;
  // Bytes for a stream that has been silent for a while; empty where the dialect has none.
  virtual std::string keep_alive() { return {}; }
};

// What a dialect brings to one of its routes that generate.
struct GenerationDialect {
  Result<ChatRequest> (*parse)(std::string body, const App& app);
  std::unique_ptr<AnswerWriter> (*make_writer)(const ChatRequest& request, const App& app, std::string request_id);
  http::Response (*write_error)(const Error& error, std::string_view request_id);
  // The answer to a request that asks for residency only; null where the dialect has no such thing.
  http::Response (*write_residency)(const ChatRequest& request) = nullptr;
};

// `dialect` and `app` outlive the answer.
std::unique_ptr<http::Answer> generate(http::Request request, const GenerationDialect& dialect, const App& app);

}  // namespace tempo9::server
