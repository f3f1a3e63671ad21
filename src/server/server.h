// The HTTP server: one loopback port, every dialect.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "chat/chat_format.h"
#include "chat/images.h"
#include "engine/service.h"
#include "server/limits.h"
#include "tokenizer/tokenizer.h"
#include "vision/image_service.h"

namespace tempo9::server {

// What the model lists report.
struct ModelCard {
  std::string name;       // --name, the Ollama name, or the file's basename
  int64_t created_s = 0;  // the file's modification time, seconds since the epoch
  int64_t context_length = 0;
  // The rest is for Ollama's API.
  uint64_t size_bytes = 0;
  std::string digest;  // 64 lower-case hex digits, the same as long as the file is
  std::string family;  // general.architecture
  int64_t n_parameters = 0;
  int64_t n_layers = 0;
  int64_t embedding_length = 0;
  std::string quantization;  // "Q4_K_M"
  std::string license;       // may be empty
  std::string chat_template;
  // The file's metadata as JSON, long lists of the tokenizer only if asked for (null otherwise). May be empty; any
  // thread may call it.
  std::function<chat::Json(bool with_lists)> metadata;
};

// What the model file recommends (general.sampling.*), where the request is silent.
struct SamplingDefaults {
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<int64_t> top_k;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// How the model is shown images.
struct ImageInput {
  vision::ImageService& service;
  chat::ImageMarkup markup;
};

// What requests are served with. All of it outlives the server.
struct ServerContext {
  engine::Service& engine;
  const tokenizer::Tokenizer& tokenizer;
  const chat::ChatFormat& chat_format;
  ModelCard model;
  SamplingDefaults sampling_defaults;
  const ImageInput* images = nullptr;  // null: there is no vision tower
  std::string compute;                 // what the model runs on, for people
  bool logs_text = false;              // what models write; never without the user's asking
};

struct ServerOptions {
  uint16_t port = 11435;  // 0: any free one
  HttpLimits limits;
};

// Whether a server could start there: listens and lets go. Errors: as Server::start.
Result<void> check_port(uint16_t port);

// Binds 127.0.0.1, never anything else. Its threads start with it.
class Server {
 public:
  // Errors: kIo when the port is taken, with the port and the way out in the message.
  static Result<std::unique_ptr<Server>> start(const ServerContext& context, const ServerOptions& options);
  virtual ~Server() = default;

  virtual uint16_t port() const = 0;
  // Stops accepting, ends open streams in their dialect's way once the engine has stopped or `grace_ms` are over, joins
  // the threads. Idempotent.
  virtual void stop(int grace_ms) = 0;
};

}  // namespace tempo9::server
