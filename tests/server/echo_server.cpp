// A server whose model says what the last message of the user, or of a tool, says: client libraries and agents can be
// tried with any answer, tool calls and thoughts in the hermes-json form included.
//
//   echo_server [PORT] [--context N] [--images] [--chat-template FILE] [--says FILE]
//
// prints its address to stderr and ends on SIGINT or SIGTERM. With --says the model says what FILE holds, whatever it
// is told, and with --chat-template it is of the family whose template that is. With --images it takes images, and says
// how many there were and how many rows the last one has. Where an answer has the word |FAIL|, the engine fails.
#include <fmt/format.h>
#include <signal.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/byte_tokenizer.h"
#include "server/scripted_service.h"
#include "server/server.h"
#include "vision/fake_encoder.h"

namespace tempo9::testing {
namespace {

constexpr std::string_view kTemplate =
    "{# <tool_call> <think> #}{% if tools %}<turn>tools:{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<turn>{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}{% endfor %}"
    "<turn>assistant:";

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator)) {
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  parts.emplace_back(text);
  return parts;
}

std::vector<std::string> turns_of(const ByteTokenizer& tokenizer, std::span<const int32_t> prompt) {
  std::vector<std::string> turns;
  auto begin = std::find(prompt.begin(), prompt.end(), ByteTokenizer::kTurn);
  while (begin != prompt.end()) {
    const auto end = std::find(++begin, prompt.end(), ByteTokenizer::kTurn);
    turns.push_back(tokenizer.decode({begin, end}, false));
    begin = end;
  }
  return turns;
}

// The text of the last message of the user or of a tool. Agents put reminders around what their user says: where a
// message has the word SAY:, what follows it counts, up to the word ENDSAY. There may be several answers in it, parted
// by |NEXT|: the first is given at once, the second once the first has been, and so on, whatever tools say in between.
std::string answer_to(const std::vector<std::string>& turns) {
  constexpr std::string_view kSay = "SAY:";
  std::string text;
  std::vector<std::string> script;
  size_t n_given = 0;
  for (const std::string& turn : turns) {
    const bool is_user = turn.starts_with("user:");
    const size_t say = turn.rfind(kSay);
    if (turn.starts_with("assistant:")) ++n_given;
    if (!is_user && !turn.starts_with("tool:")) continue;
    text = turn.substr(turn.find(':') + 1);
    if (!is_user || say == std::string::npos) continue;
    const std::string said = turn.substr(say + kSay.size());
    script = split(said.substr(0, said.find("ENDSAY")), "|NEXT|");
    text = script.front();
    n_given = 0;
  }
  // The last turn is the answer that is asked for.
  if (script.size() > 1) return script[std::min(n_given > 0 ? n_given - 1 : 0, script.size() - 1)];
  return text;
}

// The end of the piece of a few characters that begins at `begin`.
size_t end_of_piece(std::string_view text, size_t begin) {
  size_t end = std::min(begin + 5, text.size());
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end;
}

class EchoService : public engine::Service {
 public:
  // `says`: the answer to everything; absent: an echo.
  EchoService(const ByteTokenizer& tokenizer, int64_t context_length, std::optional<std::string> says)
      : tokenizer_(tokenizer), context_length_(context_length), says_(std::move(says)) {}

  Result<std::shared_ptr<engine::Stream>> submit(engine::Request request) override {
    auto stream = std::make_shared<ScriptedStream>(std::move(request));
    const auto& prompt = stream->request.prompt;
    engine::Usage usage{.prompt_tokens = static_cast<int64_t>(prompt.size()),
                        .cached_tokens = remember(prompt),
                        .completion_tokens = 0};
    const int64_t room = context_length_ - usage.prompt_tokens;
    const int64_t limit = stream->request.max_tokens > 0 ? std::min(stream->request.max_tokens, room) : room;
    std::string text = says_ ? *says_ : answer_to(turns_of(tokenizer_, prompt));
    if (const auto& images = stream->request.images; !images.empty()) {
      text = fmt::format("{} images, the last of {} by {} rows: {}", images.size(), images.back().height,
                         images.back().width, text);
    }
    const size_t failure = text.find("|FAIL|");
    if (failure != std::string::npos) text.resize(failure);
    for (size_t begin = 0; begin < text.size() && usage.completion_tokens < limit; ++usage.completion_tokens) {
      const size_t end = end_of_piece(text, begin);
      engine::Event event = text_event(text.substr(begin, end - begin));
      event.tokens = {0};
      stream->push(std::move(event));
      begin = end;
    }
    if (failure != std::string::npos) {
      stream->push(failed_event(Error(ErrorCode::kInternal, "engine failed")));
      return stream;
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
  const std::optional<std::string> says_;
  std::mutex mutex_;
  std::vector<int32_t> last_prompt_;
};

std::string read_text(const char* path) {
  std::ifstream file(path);
  if (!file) {
    fmt::print(stderr, "echo_server: {} cannot be read\n", path);
    std::exit(1);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

int run(int argc, char** argv) {
  uint16_t port = 0;
  int64_t context_length = 1'000'000;
  bool has_images = false;
  std::string chat_template(kTemplate);
  std::optional<std::string> says;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--context" && i + 1 < argc) {
      context_length = std::atoll(argv[++i]);
    } else if (std::string_view(argv[i]) == "--images") {
      has_images = true;
    } else if (std::string_view(argv[i]) == "--chat-template" && i + 1 < argc) {
      chat_template = read_text(argv[++i]);
    } else if (std::string_view(argv[i]) == "--says" && i + 1 < argc) {
      says = read_text(argv[++i]);
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
  EchoService service(tokenizer, context_length, std::move(says));
  const auto format = chat::ChatFormat::from_source(chat_template, "<s>", "</s>");
  FakeEncoder encoder;
  vision::ImageService image_service(encoder, {});
  const server::ImageInput images{image_service, chat::find_image_markup(tokenizer).value()};
  auto server = server::Server::start({.engine = service,
                                       .tokenizer = tokenizer,
                                       .chat_format = format,
                                       .model = {.name = "echo",
                                                 .created_s = 0,
                                                 .context_length = context_length,
                                                 .digest = std::string(64, '0'),
                                                 .family = "llama",
                                                 .quantization = "F32"},
                                       .sampling_defaults = {},
                                       .images = has_images ? &images : nullptr},
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
