// What the sockets ask the rest of the server for.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/message.h"

namespace tempo9::server::http {

// A part of an answer, sent with one flush.
struct Piece {
  // Set on the first piece, and only there. A first piece that is also the last is a whole answer: head->body is sent,
  // with its length. Any other answer is sent in chunks, each the `bytes` of a piece.
  std::optional<Response> head;
  std::string bytes;
  bool is_last = false;
};

// An answer under way. The connection pulls it: it asks for the next piece only when the socket has taken the one
// before, so a slow reader holds the answer back instead of filling memory. All calls come from one thread at a time.
// An answer that is destroyed before its last piece has been pulled is cancelled: the client has gone.
class Answer {
 public:
  virtual ~Answer() = default;

  // The next piece, or nothing if none is ready.
  virtual std::optional<Piece> poll() = 0;
  // `ready` is called, from any thread, when a poll that found nothing may now find something. It does not block.
  // An empty function unsets it; once notify returns, the old one is not running and will not be called.
  virtual void notify(std::function<void()> ready) = 0;
  // The server ends this answer now: its last piece, which says why in the dialect's way.
  virtual Piece abort(const Error& error) = 0;
  // Bytes to send into a stream that has been silent for a while; empty where the dialect has none. They are sent: a
  // dialect may count them.
  virtual std::string keep_alive() { return {}; }
};

// An answer that is ready at once.
std::unique_ptr<Answer> answer_with(Response response);

// Makes answers. Called from any network thread; must not block.
class Handler {
 public:
  virtual ~Handler() = default;

  virtual std::unique_ptr<Answer> handle(Request request) = 0;
  // The answer to a request that cannot be read or is not allowed to go on; `request` holds what is known of it.
  virtual Response refuse(const Request& request, const Error& error) = 0;
};

}  // namespace tempo9::server::http
