// `tempo9 chat` as its user sees it: with pipes, and on a terminal.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "cli/program.h"
#include "server/server_fixture.h"
#include "support/data.h"

namespace tempo9::testing {
namespace {

constexpr char kCtrlC = '\x03';
constexpr char kCtrlD = '\x04';

class Chat : public ServerTest {
 protected:
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }

  // The program's standard output for these lines of input.
  Output talk(const std::string& input, const std::string& flags = "") {
    const std::string path = std::filesystem::temp_directory_path() / ("tempo9-chat-" + std::to_string(getpid()));
    std::ofstream(path) << input;
    Output output = run("chat " + url() + " " + flags + " < " + path);
    std::filesystem::remove(path);
    return output;
  }
};

// tempo9 with a terminal of its own.
class TerminalProgram {
 public:
  explicit TerminalProgram(std::vector<std::string> arguments) {
    pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    arguments.insert(arguments.begin(), TEMPO9_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(TEMPO9_BINARY, argv.data());
    _exit(127);
  }
  ~TerminalProgram() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    close(fd_);
  }

  void type(std::string_view keys) { EXPECT_EQ(write(fd_, keys.data(), keys.size()), std::ssize(keys)); }
  // Waits until what was shown since the last call has the text.
  bool wait_for(std::string_view text) {
    for (;;) {
      if (const size_t at = shown_.find(text); at != std::string::npos) {
        shown_.erase(0, at + text.size());
        return true;
      }
      if (!read_more()) {
        ADD_FAILURE() << "no \"" << text << "\" in: " << shown_;
        return false;
      }
    }
  }
  int wait_end() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  bool read_more() {
    pollfd wanted{.fd = fd_, .events = POLLIN, .revents = 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
    if (poll(&wanted, 1, static_cast<int>(patience.count())) <= 0) return false;
    char bytes[4096];
    const ssize_t n = read(fd_, bytes, sizeof bytes);  // an error says that the other end is closed
    if (n > 0) shown_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string shown_;
};

std::vector<std::string> turns_of(const ByteTokenizer& tokenizer, const engine::Request& request) {
  std::vector<std::string> turns(1);
  for (const int32_t token : request.prompt) {
    if (token == ByteTokenizer::kTurn) {
      turns.emplace_back();
    } else {
      turns.back() += tokenizer.decode({&token, 1}, false);
    }
  }
  turns.erase(turns.begin());
  return turns;
}

using Turns = std::vector<std::string>;

TEST_F(Chat, EachLineOfAPipeIsAMessageOfOneConversation) {
  service_.answer_with({"ans", "wer"});
  const Output output = talk("one\n\ntwo");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.text, "answer\nanswer\n") << "nothing but answers";
  EXPECT_EQ(turns_of(tokenizer_, service_.next_stream()->request), (Turns{"user:one", "assistant:"}));
  EXPECT_EQ(turns_of(tokenizer_, service_.next_stream()->request),
            (Turns{"user:one", "assistant:answer", "user:two", "assistant:"}));
}

TEST_F(Chat, AMessageMayHaveSeveralLinesAndAConversationMayBeginAnew) {
  service_.answer_with({"ok"});
  EXPECT_EQ(talk("\"\"\"a\nb\nc\"\"\"\nd\\\ne\n/reset\n\"\"\"f\"\"\"\n/quit\nnever\n", "--system S").exit_code, 0);
  EXPECT_EQ(turns_of(tokenizer_, service_.next_stream()->request), (Turns{"system:S", "user:a\nb\nc", "assistant:"}));
  EXPECT_EQ(turns_of(tokenizer_, service_.next_stream()->request),
            (Turns{"system:S", "user:a\nb\nc", "assistant:ok", "user:d\ne", "assistant:"}));
  EXPECT_EQ(turns_of(tokenizer_, service_.next_stream()->request), (Turns{"system:S", "user:f", "assistant:"}));
  EXPECT_EQ(service_.n_submitted(), 3U);
}

TEST_F(Chat, AnAnswerThatFailsIsToldAndNotPartOfTheConversation) {
  service_.play({text_event("half"), failed_event(Error(ErrorCode::kInternal, "the engine failed"))});
  Output output = talk("one\n");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.text, "half\n");
  service_.refuse_with(Error(ErrorCode::kOutOfCapacity, "512 requests are waiting already"));
  EXPECT_NE(run("chat " + url() + " < " + source_path("LICENSE"), true).text.find("tempo9: error: 512 requests are"),
            std::string::npos);
}

TEST_F(Chat, AnAddressWithoutAServerIsToldInOneLine) {
  for (const auto& [where, part] :
       std::vector<std::pair<std::string, std::string>>{{"http://127.0.0.1:1", "Connection refused"},
                                                        {"https://example.org", "only http://"},
                                                        {"http://:1", "HOST"}}) {
    const Output output = run("chat " + where + " < /dev/null", true);
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_TRUE(output.text.starts_with("tempo9: error: ")) << output.text;
    EXPECT_NE(output.text.find(part), std::string::npos) << output.text;
  }
  EXPECT_EQ(run("chat < /dev/null", true).exit_code, 2);
}

TEST_F(Chat, CtrlCStopsTheAnswerAndASecondOneEnds) {
  TerminalProgram program({"chat", url()});
  ASSERT_TRUE(program.wait_for("> "));
  program.type("tell me\n");
  const auto stream = service_.next_stream();
  ASSERT_NE(stream, nullptr);
  stream->push(text_event("Once \x1b]0;title\x07upon"));
  ASSERT_TRUE(program.wait_for("Once ]0;titleupon")) << "what a model writes does not set the terminal's title";
  program.type(std::string(1, kCtrlC));
  EXPECT_TRUE(stream->wait_cancelled());
  ASSERT_TRUE(program.wait_for("stopped"));
  ASSERT_TRUE(program.wait_for("> "));
  program.type("and then\n");
  const auto next = service_.next_stream();
  EXPECT_EQ(turns_of(tokenizer_, next->request).at(1), "assistant:Once \x1b]0;title\x07upon");
  program.type(std::string(1, kCtrlC));
  ASSERT_TRUE(program.wait_for("stopped"));
  program.type(std::string(1, kCtrlC));
  EXPECT_EQ(program.wait_end(), 130);
}

TEST_F(Chat, OnATerminalThereAreThoughtsAndTheCostOfAnAnswer) {
  use_template("{# <think> </think> #}");
  service_.answer_with({"<think>", "hm", "</think>", "yes"});
  TerminalProgram program({"chat", url()});
  ASSERT_TRUE(program.wait_for("> "));
  program.type("well?\n");
  ASSERT_TRUE(program.wait_for("\x1b[2mhm"));
  ASSERT_TRUE(program.wait_for("yes"));
  ASSERT_TRUE(program.wait_for("first one after"));
  ASSERT_TRUE(program.wait_for("> "));
  program.type(std::string(1, kCtrlC));
  ASSERT_TRUE(program.wait_for("once more ends"));
  ASSERT_TRUE(program.wait_for("> "));
  program.type(std::string(1, kCtrlD));
  EXPECT_EQ(program.wait_end(), 0);
}

TEST(ChatWithAFile, StartsAServerInside) {
  const std::string flags = " --temperature 0 --max-tokens 5 --threads 1 --memory 64M";
  const std::string input = " < " + source_path("CMakePresets.json");  // some lines of text
  const Output one = run("chat " + golden_path("llama/model.gguf") + flags + input);
  EXPECT_FALSE(one.text.empty());
  EXPECT_EQ(run("chat " + golden_path("llama/model.gguf") + flags + input).text, one.text);
  EXPECT_EQ(run("chat no-such-file.gguf < /dev/null", true).exit_code, 1);
}

}  // namespace
}  // namespace tempo9::testing
