// `tempo9 chat FILE|MODEL|URL`: a conversation in the terminal, with a server that runs already or, for a model, with
// one that is started inside.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/chat_client.h"
#include "cli/chat_terminal.h"
#include "cli/commands.h"
#include "cli/logging.h"
#include "cli/model_argument.h"
#include "cli/running_server.h"

namespace tempo9::cli {
namespace {

constexpr int kExitInterrupted = 128 + SIGINT;

constexpr std::string_view kHelp =
    "  /reset   begin a new conversation\n"
    "  /help    this list\n"
    "  /quit    end; so does Ctrl-D\n"
    "  \"\"\"      begins and ends a message of several lines; a backslash at a line's end goes on too\n"
    "  Ctrl-C   stops the answer; once more ends";

struct ChatOptions {
  ServeOptions serve;
  ChatParameters parameters;

  bool is_url() const { return serve.gguf.find("://") != std::string::npos; }
};

class Chat {
 public:
  explicit Chat(ChatClient client) : client_(std::move(client)) {}

  // Until the input ends or the user does. Gives the exit code.
  int run() {
    while (!is_over_) {
      const ChatTerminal::Input input = terminal_.read_line(open_.empty() ? "> " : ". ");
      if (input.kind == ChatTerminal::Input::Kind::kEnd) break;
      if (input.kind == ChatTerminal::Input::Kind::kInterrupt) {
        interrupt();
      } else {
        take_line(input.line);
      }
    }
    if (!open_.empty() && !is_over_) say(open_);
    terminal_.hint("");
    return exit_code_;
  }

 private:
  // At the prompt. The first one drops what was begun.
  void interrupt() {
    terminal_.hint("");
    if (was_interrupted_) return finish(kExitInterrupted);
    was_interrupted_ = true;
    open_.clear();
    is_in_block_ = false;
    terminal_.hint("Ctrl-C once more ends");
  }

  void take_line(std::string line) {
    was_interrupted_ = false;
    constexpr std::string_view kBlock = "\"\"\"";
    if (is_in_block_) {
      const bool ends = line.ends_with(kBlock);
      open_ += ends ? line.substr(0, line.size() - kBlock.size()) : line + "\n";
      is_in_block_ = !ends;
    } else if (line.starts_with(kBlock) && !(line.size() >= 2 * kBlock.size() && line.ends_with(kBlock))) {
      open_ += line.substr(kBlock.size()) + (line.size() > kBlock.size() ? "\n" : "");
      is_in_block_ = true;
      return;
    } else if (line.ends_with('\\')) {
      line.pop_back();
      open_ += line + "\n";
      return;
    } else {
      if (open_.empty() && line.starts_with('/')) return command(line);
      open_ += line.starts_with(kBlock) ? line.substr(kBlock.size(), line.size() - 2 * kBlock.size()) : line;
    }
    if (!is_in_block_) say(std::exchange(open_, {}));
  }

  void command(const std::string& line) {
    if (line == "/reset") {
      client_.reset();
      terminal_.hint("a new conversation");
    } else if (line == "/help" || line == "/?") {
      terminal_.note(kHelp);
    } else if (line == "/quit" || line == "/exit" || line == "/bye") {
      is_over_ = true;
    } else {
      terminal_.note(fmt::format("{}: no such command; /help lists them", line));
    }
  }

  void say(const std::string& text) {
    if (text.find_first_not_of(" \t\n") == std::string::npos) return;
    terminal_.take_interrupt();
    bool is_read = true;
    const auto cost =
        client_.say(text,
                    {.text = [&](std::string_view part) { return is_read = terminal_.write_answer(part); },
                     .thought = [&](std::string_view part) { terminal_.write_thought(part); }},
                    terminal_.interrupt_fd());
    terminal_.end_line();
    if (cost) return terminal_.note(describe(*cost));
    if (!is_read) return finish(kExitFailure);
    if (cost.error().code() == ErrorCode::kCancelled) {
      terminal_.take_interrupt();
      was_interrupted_ = true;
      return terminal_.note("stopped; Ctrl-C once more ends");
    }
    exit_code_ = kExitFailure;
    terminal_.note("tempo9: error: " + cost.error().message());
  }

  static std::string describe(const ChatCost& cost) {
    const std::string speed =
        cost.tokens_per_second > 0 ? fmt::format("{:.1f} tokens per second, ", cost.tokens_per_second) : "";
    return fmt::format("{} tokens, {}first one after {:.0f} ms; prompt {}, {} of it reused{}", cost.completion_tokens,
                       speed, 1000 * cost.first_token_s, cost.prompt_tokens, cost.cached_tokens,
                       cost.is_cut ? "; cut at the limit" : "");
  }

  void finish(int exit_code) {
    exit_code_ = exit_code;
    is_over_ = true;
  }

  ChatClient client_;
  ChatTerminal terminal_;
  std::string open_;  // lines of a message that is not whole yet
  bool is_in_block_ = false;
  bool was_interrupted_ = false;  // since the last line; another one ends
  bool is_over_ = false;
  int exit_code_ = kExitOk;
};

Result<int> converse(const HttpAddress& address, const ChatOptions& options) {
  ChatClient client(address, options.parameters);
  T9_TRY(name, client.model_name());
  Chat chat(std::move(client));
  fmt::print(stderr, "{} at http://{}:{}; /help lists what can be done\n", name, address.host, address.port);
  return chat.run();
}

Result<int> chat_with_url(const ChatOptions& options) {
  T9_TRY(address, parse_http_address(options.serve.gguf));
  return converse(address, options);
}

Result<int> chat_with_model(const ChatOptions& options, ServeSettings settings) {
  set_up_logging(options.serve.log_level);
  T9_TRY(running, RunningServer::start(options.serve, std::move(settings)));
  return converse({"127.0.0.1", std::to_string(running->port())}, options);
}

int run(ChatOptions& options) {
  resolve_model_argument(options.serve);
  Result<ServeSettings> settings = read_serve_settings(options.serve);
  const bool has_model = !options.serve.gguf.empty() || !options.serve.ollama.empty();
  if (!settings || !has_model) {
    fmt::print(
        stderr, "tempo9: error: {}\n",
        has_model ? settings.error().message() : "no model given; try 'tempo9 chat FILE', or a server's address");
    return kExitUsage;
  }
  std::signal(SIGPIPE, SIG_IGN);
  const Result<int> code = options.is_url() ? chat_with_url(options) : chat_with_model(options, *std::move(settings));
  if (code) return *code;
  fmt::print(stderr, "tempo9: error: {}\n", code.error().message());
  return kExitFailure;
}

}  // namespace

void add_chat_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ChatOptions>();
  options->serve.port = 0;
  options->serve.log_level = "error";
  CLI::App* command = app.add_subcommand(
      "chat", "Talk in the terminal to a model (FILE, or a name of Ollama's) or to a server (its URL)");
  command->footer(
      "Input that is no terminal is read line by line, each a message; answers go to standard output.\n"
      "Exit codes: 0 done, 1 an answer failed, 2 wrong usage, 130 ended by Ctrl-C.");
  command->add_option("--system", options->parameters.system, "What the model is told first")
      ->type_name("TEXT")
      ->group("Chat");
  command->add_option("--temperature", options->parameters.temperature, "0: the likeliest token; default: the server's")
      ->type_name("T")
      ->check(CLI::Range(0.0, 2.0))
      ->group("Chat");
  command->add_option("--max-tokens", options->parameters.max_tokens, "Of an answer; default: to the context's end")
      ->type_name("N")
      ->check(CLI::PositiveNumber)
      ->group("Chat");
  add_serve_options(*command, options->serve);
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tempo9::cli
