// A server whose model says what the last message of the user, or of a tool, says: client libraries and agents can be
// tried with any answer, tool calls and thoughts in the hermes-json form included.
//
//   echo_server [PORT] [--context N]      prints its address to stderr; ends on SIGINT or SIGTERM
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "server/byte_tokenizer.h"
#include "server/scripted_service.h"
#include "server/server.h"

namespace tempo9::testing {
namespace {

constexpr std::string_view kTemplate =
    "{# <tool_call> #}{% if tools %}<turn>tools:{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<turn>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}{% endfor %}"
    "<turn>assistant:";

// The text of the last message that is no system message. Agents put reminders around what their user says: where the
// message has the word SAY:, what follows it counts.
std::string last_message(const ByteTokenizer& tokenizer, std::span<const int32_t> prompt) {
  constexpr std::string_view kSay = "SAY:";
  std::string text;
  auto begin = prompt.begin();
  while (true) {
    begin = std::find(begin, prompt.end(), ByteTokenizer::kTurn);
    if (begin == prompt.end()) return text;
    const auto end = std::find(++begin, prompt.end(), ByteTokenizer::kTurn);
    const std::string turn = tokenizer.decode({begin, end}, false);
    if (turn.starts_with("user:") || turn.starts_with("tool:")) {
      const size_t say = turn.rfind(kSay);
      text = turn.substr(say == std::string::npos ? turn.find(':') + 1 : say + kSay.size());
    }
    begin = end;
  }
}

// The end of the piece of a few characters that begins at `begin`.
size_t end_of_piece(std::string_view text, size_t begin) {
  size_t end = std::min(begin + 5, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end;
}

class EchoService : public engine::Service {
 public:
  EchoService(const ByteTokenizer& tokenizer, int64_t context_length)
      : tokenizer_(tokenizer), context_length_(context_length) {}

  Result<std::shared_ptr<engine::Stream>> submit(engine::Request request) override {
    auto stream = std::make_shared<ScriptedStream>(std::move(request));
    const auto& prompt = stream->request.prompt;
    engine::Usage usage{.prompt_tokens = static_cast<int64_t>(prompt.size()),
                        .cached_tokens = remember(prompt),
                        .completion_tokens = 0};
    const int64_t room = context_length_ - usage.prompt_tokens;
    const int64_t limit = stream->request.max_tokens > 0 ? std::min(stream->request.max_tokens, room) : room;
    const std::string text = last_message(tokenizer_, prompt);
    for (size_t begin = 0; begin < text.size() && usage.completion_tokens < limit; ++usage.completion_tokens) {
      const size_t end = end_of_piece(text, begin);
      engine::Event event = text_event(text.substr(begin, end - begin));
      event.tokens = {0};
      stream->push(std::move(event));
      begin = end;
    }
    const bool is_cut = usage.completion_tokens >= limit;
    stream->push(last_event(is_cut ? engine::FinishReason::kLength : engine::FinishReason::kStop, usage));
    return stream;
  }
  engine::ServiceStats stats() const override { return {}; }
  int64_t context_length() const override { return context_length_; }

 private:
  // How much of the prompt the one before it began with, as a prefix cache would have it.
  int64_t remember(const std::vector<int32_t>& prompt) {
    const std::lock_guard hold(mutex_);
    const auto common = std::ranges::mismatch(prompt, last_prompt_).in1 - prompt.begin();
    last_prompt_ = prompt;
    return std::min<int64_t>(common, static_cast<int64_t>(prompt.size()) - 1);
  }

  const ByteTokenizer& tokenizer_;
  const int64_t context_length_;
  std::mutex mutex_;
  std::vector<int32_t> last_prompt_;
};

int run(int argc, char** argv) {
  uint16_t port = 0;
  int64_t context_length = 1'000'000;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--context" && i + 1 < argc) {
      context_length = std::atoll(argv[++i]);
    } else {
      port = static_cast<uint16_t>(std::atoi(argv[i]));
    }
  }
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  signal(SIGPIPE, SIG_IGN);
  spdlog::set_level(spdlog::level::warn);

  const ByteTokenizer tokenizer;
  EchoService service(tokenizer, context_length);
  const auto format = chat::ChatFormat::from_source(kTemplate, "<s>", "</s>");
  auto server = server::Server::start({.engine = service,
                                       .tokenizer = tokenizer,
                                       .chat_format = format,
                                       .model = {.name = "echo", .created_s = 0, .context_length = context_length},
                                       .sampling_defaults = {}},
                                      {.port = port, .limits = {}});
  if (!server) {
    fmt::print(stderr, "echo_server: {}\n", server.error().message());
    return 1;
  }
  fmt::print(stderr, "http://127.0.0.1:{}\n", (*server)->port());
  int received = 0;
  sigwait(&stop, &received);
  (*server)->stop(1000);
  return 0;
}

}  // namespace
}  // namespace tempo9::testing

int main(int argc, char** argv) { return tempo9::testing::run(argc, argv); }
