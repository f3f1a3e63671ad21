#include "server/generation.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "server/deferred.h"
#include "server/prepare.h"

namespace tempo9::server {

namespace {

struct Started {
  int64_t prompt_tokens;
  std::shared_ptr<engine::Stream> stream;
  std::unique_ptr<AnswerReader> reader;
  std::unique_ptr<AnswerWriter> writer;
};

using Preparation = Deferred<Result<Started>>;

// What was started for a client that has gone.
void cancel(std::optional<Result<Started>> started) {
  if (started && *started) (*started)->stream->cancel();
}

Result<Started> start(http::Request request, const GenerationDialect& dialect, const App& app,
                      const Preparation& preparation) {
  const Sender sender{.request_id = request.id, .client = request.client};
  T9_TRY(chat_request, dialect.parse(std::move(request.body), app));
  chat_request.debug_cache = request.header("x-tempo9-debug") == "cache";
  T9_TRY(prepared, prepare(chat_request, app, sender, [&preparation] { return preparation.is_cancelled(); }));
  auto writer = dialect.make_writer(chat_request, app, sender.request_id);
  const auto n_tokens = static_cast<int64_t>(prepared.engine_request.prompt.size());
  T9_TRY(stream, app.context.engine.submit(std::move(prepared.engine_request)));
  spdlog::debug("event=submitted request={} client={} prompt_tokens={}", sender.request_id, sender.client, n_tokens);
  return Started{n_tokens, std::move(stream), std::make_unique<AnswerReader>(std::move(prepared.answer)),
                 std::move(writer)};
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
    if (ended_) return;
    spdlog::info("event=client_left request={}", request_id_);
    cancel(preparation_->cancel());
    if (stream_) stream_->cancel();
  }

  std::optional<http::Piece> poll() override {
    if (!stream_) return poll_preparation();
    while (const auto event = stream_->poll()) {
      const AnswerUpdate update = reader_->read(*event);
      // The stream's last event, which says that it was cancelled, completes the usage.
      if (reader_->is_over()) stream_->end();
      if (auto piece = writer_->write(update)) return note_end(std::move(*piece));
    }
    return std::nullopt;
  }

  void notify(std::function<void()> ready) override {
    ready_ = ready;
    preparation_->notify(ready);
    if (stream_) stream_->notify(std::move(ready));
  }

  http::Piece abort(const Error& error) override {
    AnswerUpdate last;
    last.error = error;
    if (writer_) {
      if (auto piece = writer_->write(last)) return std::move(*piece);
    }
    return {.head = dialect_.write_error(error, request_id_), .bytes = {}, .is_last = true};
  }

  std::string_view keep_alive() const override { return writer_ ? writer_->keep_alive() : std::string_view(); }

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

  std::optional<http::Piece> poll_preparation() {
    auto result = preparation_->take();
    if (!result) return std::nullopt;
    if (!*result) {
      const Error& error = result->error();
      spdlog::info("event=refused request={} reason={} message=\"{}\"", request_id_, error.reason(), error.message());
      return note_end({.head = dialect_.write_error(error, request_id_), .bytes = {}, .is_last = true});
    }
    stream_ = std::move((*result)->stream);
    reader_ = std::move((*result)->reader);
    writer_ = std::move((*result)->writer);
    if (ready_) stream_->notify(ready_);
    if (auto piece = writer_->begin((*result)->prompt_tokens)) return piece;
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
  std::shared_ptr<engine::Stream> stream_;
  std::unique_ptr<AnswerReader> reader_;
  std::unique_ptr<AnswerWriter> writer_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<http::Answer> generate(http::Request request, const GenerationDialect& dialect, const App& app) {
  return std::make_unique<GenerationAnswer>(std::move(request), dialect, app);
}

}  // namespace tempo9::server
