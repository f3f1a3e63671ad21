#include "server/http/answer.h"

#include <utility>

namespace tempo9::server::http {

namespace {

class ReadyAnswer : public Answer {
 public:
  explicit ReadyAnswer(Response response) : response_(std::move(response)) {}

  std::optional<Piece> poll() override { return last_piece(); }
  void notify(std::function<void()>) override {}
  Piece abort(const Error&) override { return last_piece(); }

 private:
  Piece last_piece() { return {.head = std::move(response_), .bytes = {}, .is_last = true}; }

  Response response_;
};

}  // namespace

std::unique_ptr<Answer> answer_with(Response response) { return std::make_unique<ReadyAnswer>(std::move(response)); }

}  // namespace tempo9::server::http
