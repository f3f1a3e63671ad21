// Bytes as a chat request's body in each dialect: parsed, and when that works rendered and tokenized, up to the
// engine's door.
#include "chat/chat_format.h"
#include "server/app.h"
#include "server/byte_tokenizer.h"
#include "server/dialects/anthropic_request.h"
#include "server/dialects/openai_chat.h"
#include "server/dialects/openai_responses_request.h"
#include "server/prepare.h"
#include "server/scripted_service.h"
#include "vision/fake_encoder.h"

namespace {

using namespace tempo9;

struct World {
  testing::ScriptedService service;
  testing::ByteTokenizer tokenizer;
  chat::ChatFormat format = chat::ChatFormat::from_source(
      "{% for m in messages %}<turn>{{ m.role }}:{{ m.content }}{{ m.tool_calls | tojson }}{% endfor %}"
      "{{ tools | tojson }}<turn>assistant:",
      "<s>", "</s>");
  testing::FakeEncoder encoder;
  vision::ImageService image_service{encoder, {}};
  server::ImageInput images{image_service, chat::find_image_markup(tokenizer).value()};
  server::ServerContext context{.engine = service,
                                .tokenizer = tokenizer,
                                .chat_format = format,
                                .model = {.name = "fuzz", .created_s = 0, .context_length = 4096},
                                .sampling_defaults = {},
                                .images = &images};
  server::WorkerPool workers{1};
  grammar::GrammarCache grammars{4};
  server::ResponseStore responses{4, 1 << 20};
  server::Activity activity;
  server::App app{context, workers, grammars, responses, activity, {}};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World world;
  const std::string body(reinterpret_cast<const char*>(data), size);
  for (const auto parse :
       {server::parse_openai_chat, server::parse_anthropic_request, server::parse_responses_request}) {
    const auto request = parse(body, world.app);
    if (!request) continue;
    const auto prepared =
        server::prepare(*request, world.app, {.request_id = "r", .client = "c"}, [] { return false; });
    static_cast<void>(prepared);
  }
  return 0;
}
