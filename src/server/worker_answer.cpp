#include "server/worker_answer.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <optional>
#include <utility>

#include "server/deferred.h"

namespace tempo9::server {

namespace {

using Outcome = Result<http::Response>;

// The last catch of a worker's job: whatever a library throws ends the request, not the server.
Outcome run_job(const WorkerJob& job, const std::string& request_id, const Deferred<Outcome>& outcome) {
  try {
    return job([&outcome] { return outcome.is_cancelled(); });
  } catch (const std::exception& e) {
    spdlog::error("event=job_failed request={} what=\"{}\"", request_id, e.what());
    return fail(ErrorCode::kInternal, "The request could not be answered.");
  }
}

class WorkerAnswer : public http::Answer {
 public:
  WorkerAnswer(const App& app, std::string request_id, decltype(Dialect::write_error) write_error, WorkerJob job)
      : request_id_(std::move(request_id)), write_error_(write_error), outcome_(std::make_shared<Deferred<Outcome>>()) {
    app.workers.post([job = std::move(job), id = request_id_, outcome = outcome_] {
      if (!outcome->is_cancelled()) outcome->finish(run_job(job, id, *outcome));
    });
  }

  ~WorkerAnswer() override {
    notify({});
    outcome_->cancel();
  }

  std::optional<http::Piece> poll() override {
    auto outcome = outcome_->take();
    if (!outcome) return std::nullopt;
    if (*outcome) return http::Piece{.head = **std::move(outcome), .bytes = {}, .is_last = true};
    const Error& error = outcome->error();
    spdlog::info("event=refused request={} reason={} message=\"{}\"", request_id_, error.reason(), error.message());
    return abort(error);
  }

  void notify(std::function<void()> ready) override { outcome_->notify(std::move(ready)); }

  http::Piece abort(const Error& error) override {
    return {.head = write_error_(error, request_id_), .bytes = {}, .is_last = true};
  }

 private:
  const std::string request_id_;
  const decltype(Dialect::write_error) write_error_;
  const std::shared_ptr<Deferred<Outcome>> outcome_;
};

}  // namespace

std::unique_ptr<http::Answer> answer_on_worker(const App& app, std::string request_id,
                                               decltype(Dialect::write_error) write_error, WorkerJob job) {
  return std::make_unique<WorkerAnswer>(app, std::move(request_id), write_error, std::move(job));
}

}  // namespace tempo9::server
