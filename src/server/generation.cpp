#include "server/generation.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "server/deferred.h"
#include "server/prepare.h"

namespace tempo9::server {

namespace {

struct Choice {
  std::shared_ptr<engine::Stream> stream;
  std::unique_ptr<AnswerReader> reader;
  bool is_over = false;  // its last event has been read
};

struct Started {
  std::vector<Choice> choices;
  std::unique_ptr<AnswerWriter> writer;
  int64_t prompt_tokens = 0;
  std::optional<http::Response> at_once;  // the whole answer, in place of the above
};

using Preparation = Deferred<Result<Started>>;

void cancel(const std::vector<Choice>& choices) {
  for (const Choice& choice : choices) {
    if (!choice.is_over) choice.stream->cancel();
  }
}

// What was started for a client that has gone.
void cancel(std::optional<Result<Started>> started) {
  if (started && *started) cancel((*started)->choices);
}

// All of them or, when there is no room for one, none.
Result<std::vector<Choice>> submit(std::vector<Prepared> prepared, engine::Service& engine) {
  std::vector<Choice> choices;
  for (Prepared& one : prepared) {
    auto stream = engine.submit(std::move(one.engine_request));
    if (!stream) {
      cancel(choices);
      return std::unexpected(std::move(stream).error());
    }
    choices.push_back({.stream = *std::move(stream), .reader = std::make_unique<AnswerReader>(std::move(one.answer))});
  }
  return choices;
}

Result<Started> start(http::Request request, const GenerationDialect& dialect, const App& app,
                      const Preparation& preparation) {
  const Sender sender{.request_id = request.id, .client = request.client};
  T9_TRY(chat_request, dialect.parse(std::move(request.body), app));
  chat_request.debug_cache = request.header("x-tempo9-debug") == "cache";
  if (chat_request.residency != Residency::kNone) return Started{.at_once = dialect.write_residency(chat_request)};
  T9_TRY(prepared, prepare(chat_request, app, sender, [&preparation] { return preparation.is_cancelled(); }));
  auto writer = dialect.make_writer(chat_request, app, sender.request_id);
  writer->note_prompt(prepared.front().engine_request.prompt);
  const auto n_tokens = static_cast<int64_t>(prepared.front().engine_request.prompt.size());
  T9_TRY(choices, submit(std::move(prepared), app.context.engine));
  spdlog::debug("event=submitted request={} client={} prompt_tokens={} choices={}", sender.request_id, sender.client,
                n_tokens, choices.size());
  return Started{.choices = std::move(choices), .writer = std::move(writer), .prompt_tokens = n_tokens};
}

class GenerationAnswer : public http::Answer {
 public:
  GenerationAnswer(http::Request request, const GenerationDialect& dialect, const App& app)
      : request_id_(request.id), dialect_(dialect), preparation_(std::make_shared<Preparation>()) {
    app.workers.post([request = std::move(request), &dialect, &app, preparation = preparation_]() mutable {
      if (preparation->is_cancelled()) return;
      cancel(preparation->finish(run_start(std::move(request), dialect, app, *preparation)));
    });
  }

  ~GenerationAnswer() override {
    notify({});
    if (!ended_) spdlog::info("event=client_left request={}", request_id_);
    if (!ended_) cancel(preparation_->cancel());
    cancel(choices_);
  }

  // Choices take turns, so that one that is fast does not hold back the others.
  std::optional<http::Piece> poll() override {
    if (!writer_) return poll_preparation();
    for (size_t n = choices_.size(); n > 0; --n) {
      const size_t i = next_;
      next_ = (next_ + 1) % choices_.size();
      if (auto piece = poll_choice(i)) return piece;
    }
    return std::nullopt;
  }

  void notify(std::function<void()> ready) override {
    ready_ = ready;
    preparation_->notify(ready);
    for (const Choice& choice : choices_) choice.stream->notify(ready);
  }

  http::Piece abort(const Error& error) override {
    AnswerUpdate last;
    last.error = error;
    if (writer_) {
      if (auto piece = writer_->write(last)) return std::move(*piece);
    }
    return {.head = dialect_.write_error(error, request_id_), .bytes = {}, .is_last = true};
  }

  std::string keep_alive() override { return writer_ ? writer_->keep_alive() : std::string(); }

 private:
  // The last catch of a worker's job: whatever a library throws ends the request, not the server.
  static Result<Started> run_start(http::Request request, const GenerationDialect& dialect, const App& app,
                                   const Preparation& preparation) {
    const std::string id = request.id;
    try {
      return start(std::move(request), dialect, app, preparation);
    } catch (const std::exception& e) {
      spdlog::error("event=prepare_failed request={} what=\"{}\"", id, e.what());
      return fail(ErrorCode::kInternal, "The request could not be prepared.");
    }
  }

  std::optional<http::Piece> poll_choice(size_t i) {
    Choice& choice = choices_[i];
    while (!choice.is_over) {
      const auto event = choice.stream->poll();
      if (!event) break;
      AnswerUpdate update = choice.reader->read(*event);
      update.choice = static_cast<int32_t>(i);
      choice.is_over = event->finish || event->error;
      // The stream's last event, which says that it was cancelled, completes the usage.
      if (choice.reader->is_over()) choice.stream->end();
      if (auto piece = writer_->write(update)) return note_end(std::move(*piece));
    }
    return std::nullopt;
  }

  std::optional<http::Piece> poll_preparation() {
    auto result = preparation_->take();
    if (!result) return std::nullopt;
    if (!*result) {
      const Error& error = result->error();
      spdlog::info("event=refused request={} reason={} message=\"{}\"", request_id_, error.reason(), error.message());
      return note_end({.head = dialect_.write_error(error, request_id_), .bytes = {}, .is_last = true});
    }
    Started& started = **result;
    if (started.at_once) return note_end({.head = std::move(started.at_once), .bytes = {}, .is_last = true});
    choices_ = std::move(started.choices);
    writer_ = std::move(started.writer);
    if (ready_) notify(ready_);
    if (auto piece = writer_->begin(started.prompt_tokens)) return piece;
    return poll();
  }

  http::Piece note_end(http::Piece piece) {
    ended_ = piece.is_last;
    return piece;
  }

  const std::string request_id_;
  const GenerationDialect& dialect_;
  const std::shared_ptr<Preparation> preparation_;
  std::function<void()> ready_;
  std::vector<Choice> choices_;
  size_t next_ = 0;  // the choice whose turn it is
  std::unique_ptr<AnswerWriter> writer_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<http::Answer> generate(http::Request request, const GenerationDialect& dialect, const App& app) {
  return std::make_unique<GenerationAnswer>(std::move(request), dialect, app);
}

}  // namespace tempo9::server
