// Answers that take a worker thread's time and need no engine.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/dialects/dialect.h"

namespace tempo9::server {

// Runs on a worker thread. Asks `is_cancelled` now and then: the client may have gone.
using WorkerJob = std::function<Result<http::Response>(const std::function<bool()>& is_cancelled)>;

// `app` outlives the answer. An error of the job is written by `write_error`, in the dialect's way.
std::unique_ptr<http::Answer> answer_on_worker(const App& app, std::string request_id,
                                               decltype(Dialect::write_error) write_error, WorkerJob job);

}  // namespace tempo9::server
