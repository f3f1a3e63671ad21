#include "server/server.h"

#include <spdlog/spdlog.h>

#include "server/app.h"
#include "server/dialects/router.h"
#include "server/http/listener.h"
#include "server/prepare.h"
#include "server/worker_pool.h"

namespace tempo9::server {

namespace {

// Members in the order in which they lean on each other; destroyed in reverse.
class ServerImpl : public Server {
 public:
  explicit ServerImpl(const ServerContext& context)
      : context_(context),
        workers_(kPrepareThreads),
        app_{context_,   workers_,  grammars_,
             responses_, activity_, find_marker_tokens(context_.tokenizer, context_.chat_format.dialect())},
        router_(app_) {}

  Result<void> open(const ServerOptions& options) {
    T9_TRY(listener, http::Listener::start(options.port, router_, options.limits));
    listener_ = std::move(listener);
    return {};
  }

  uint16_t port() const override { return listener_->port(); }
  void stop(int grace_ms) override { listener_->stop(grace_ms); }

 private:
  const ServerContext context_;
  WorkerPool workers_;
  grammar::GrammarCache grammars_{kKeptGrammars};
  ResponseStore responses_{kStoredResponses, kStoredResponseBytes};
  Activity activity_;
  const App app_;
  Router router_;
  std::unique_ptr<http::Listener> listener_;
};

}  // namespace

std::string_view version() { return TEMPO9_VERSION; }

Result<void> check_port(uint16_t port) { return http::check_port(port); }

Result<std::unique_ptr<Server>> Server::start(const ServerContext& context, const ServerOptions& options) {
  auto server = std::make_unique<ServerImpl>(context);
  T9_TRY_VOID(server->open(options));
  return server;
}

}  // namespace tempo9::server
