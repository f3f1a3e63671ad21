// From a request to the route that answers it.
#pragma once

#include "server/dialects/dialect.h"
#include "server/http/answer.h"

namespace tempo9::server {

class Router : public http::Handler {
 public:
  // `app` outlives the router.
  explicit Router(const App& app) : app_(app) {}

  std::unique_ptr<http::Answer> handle(http::Request request) override;
  http::Response refuse(const http::Request& request, const Error& error) override;

 private:
  const App& app_;
};

}  // namespace tempo9::server
