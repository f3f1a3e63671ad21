#include "server/generation.h"

#include <spdlog/spdlog.h>

#include <mutex>
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

// What is made for one client, up to the engine's queue.
struct Preparation : Deferred<Result<Started>> {
  // The client has gone: what was started for it ends.
  void abandon();
  // The rows of the request's images are on their way.
  void wait_for_images(vision::ImageService& service, std::shared_ptr<vision::ImageService::Request> request);

 private:
  void cancel_images();

  std::mutex mutex_;
  vision::ImageService* service_ = nullptr;
  std::shared_ptr<vision::ImageService::Request> images_;
};

void cancel(const std::vector<Choice>& choices) {
  for (const Choice& choice : choices) {
    if (!choice.is_over) choice.stream->cancel();
  }
}

// What was started for a client that has gone.
void cancel(std::optional<Result<Started>> started) {
  if (started && *started) cancel((*started)->choices);
}

void Preparation::abandon() {
  server::cancel(cancel());
  cancel_images();
}

void Preparation::wait_for_images(vision::ImageService& service,
                                  std::shared_ptr<vision::ImageService::Request> request) {
  {
    const std::lock_guard hold(mutex_);
    service_ = &service;
    images_ = std::move(request);
  }
  if (is_cancelled()) cancel_images();
}

void Preparation::cancel_images() {
  std::shared_ptr<vision::ImageService::Request> images;
  {
    const std::lock_guard hold(mutex_);
    images = std::exchange(images_, nullptr);
  }
  if (images) service_->cancel(*images);
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

// A request on its way to the engine's queue, complete but for the rows of its images.
struct Ready {
  std::vector<Prepared> prepared;
  std::unique_ptr<AnswerWriter> writer;
  Sender sender;
  std::optional<http::Response> at_once;  // the whole answer, in place of the above
};

Result<Ready> make_ready(http::Request request, const GenerationDialect& dialect, const App& app,
                         const Preparation& preparation) {
  Sender sender{.request_id = request.id, .route = request.path, .client = request.client};
  T9_TRY(chat_request, dialect.parse(std::move(request.body), app));
  chat_request.debug_cache = request.header("x-tempo9-debug") == "cache";
  if (chat_request.residency != Residency::kNone) return Ready{.at_once = dialect.write_residency(chat_request)};
  T9_TRY(prepared, prepare(chat_request, app, sender, [&preparation] { return preparation.is_cancelled(); }));
  auto writer = dialect.make_writer(chat_request, app, sender.request_id);
  writer->note_prompt(prepared.front().engine_request.prompt);
  return Ready{.prepared = std::move(prepared), .writer = std::move(writer), .sender = std::move(sender)};
}

Result<Started> start(Ready ready, const App& app) {
  if (ready.at_once) return Started{.at_once = std::move(ready.at_once)};
  const auto n_tokens = static_cast<int64_t>(ready.prepared.front().engine_request.prompt.size());
  T9_TRY(choices, submit(std::move(ready.prepared), app.context.engine));
  spdlog::debug("event=submitted request={} client={} prompt_tokens={} choices={}", ready.sender.request_id,
                ready.sender.client, n_tokens, choices.size());
  return Started{.choices = std::move(choices), .writer = std::move(ready.writer), .prompt_tokens = n_tokens};
}

// `rows`: of the images of each choice's prompt, which is one and the same.
Result<Started> start_with_images(Ready ready, const Result<vision::ImageService::Rows>& rows, const App& app) {
  if (!rows) return std::unexpected(rows.error());
  for (Prepared& prepared : ready.prepared) {
    std::vector<engine::PromptImage>& images = prepared.engine_request.images;
    for (size_t i = 0; i < images.size(); ++i) images[i].rows = {(*rows)[i], &(*rows)[i]->rows};
  }
  return start(std::move(ready), app);
}

class GenerationAnswer : public http::Answer {
 public:
  GenerationAnswer(http::Request request, const GenerationDialect& dialect, const App& app)
      : request_id_(request.id),
        dialect_(dialect),
        activity_(app.activity),
        active_(activity_.begin(request.id, request.path)),
        preparation_(std::make_shared<Preparation>()) {
    app.workers.post([request = std::move(request), &dialect, &app, preparation = preparation_]() mutable {
      if (!preparation->is_cancelled()) run(std::move(request), dialect, app, preparation);
    });
  }

  ~GenerationAnswer() override {
    notify({});
    if (!ended_) spdlog::info("event=client_left request={}", request_id_);
    if (!ended_) preparation_->abandon();
    cancel(choices_);
    activity_.end(*active_);
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
  static void run(http::Request request, const GenerationDialect& dialect, const App& app,
                  const std::shared_ptr<Preparation>& preparation) {
    const std::string id = request.id;
    auto ready = caught(id, [&] { return make_ready(std::move(request), dialect, app, *preparation); });
    if (!ready) return cancel(preparation->finish(std::unexpected(std::move(ready).error())));
    if (ready->prepared.empty() || ready->prepared.front().images.empty()) {
      return cancel(preparation->finish(caught(id, [&] { return start(*std::move(ready), app); })));
    }
    // The rows may be there at once, or come on the image service's thread.
    const std::vector<vision::SeenImage> images = ready->prepared.front().images;
    const auto shared = std::make_shared<Ready>(*std::move(ready));
    auto request_of_images = app.context.images->service.encode(
        images, [shared, preparation, id, &app](const Result<vision::ImageService::Rows>& rows) {
          cancel(preparation->finish(caught(id, [&] { return start_with_images(std::move(*shared), rows, app); })));
        });
    preparation->wait_for_images(app.context.images->service, std::move(request_of_images));
  }

  // The last catch of a worker's job: whatever a library throws ends the request, not the server.
  template <class Job>
  static auto caught(const std::string& id, Job job) -> decltype(job()) {
    try {
      return job();
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
      active_->note_event(*event);
      AnswerUpdate update = choice.reader->read(*event);
      if (update.error && active_->is_cancelled()) {
        update.error = Error(ErrorCode::kCancelled, "The request was cancelled on the server's status page.");
      }
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
    std::vector<std::shared_ptr<engine::Stream>> streams;
    for (const Choice& choice : choices_) streams.push_back(choice.stream);
    active_->note_submitted(started.prompt_tokens, std::move(streams));
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
  Activity& activity_;
  const std::shared_ptr<ActiveRequest> active_;
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
