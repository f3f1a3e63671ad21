// tempo9 as a process. REQUIRES: TEMPO9_BINARY is the program's path.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace tempo9::testing {

// A running tempo9 whose stderr is read; killed at the end if it still runs.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDERR_FILENO);
      arguments.insert(arguments.begin(), TEMPO9_BINARY);
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execv(TEMPO9_BINARY, argv.data());
      _exit(127);
    }
    close(ends[1]);
    stderr_ = ends[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(stderr_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The port from the start summary; 0 when the process ended without one.
  uint16_t wait_port() {
    static const std::regex kAddress(R"(address +http://127\.0\.0\.1:(\d+)\n)");
    std::smatch match;
    while (!std::regex_search(text_, match, kAddress)) {
      if (!read_more()) return 0;
    }
    return static_cast<uint16_t>(std::stoi(match[1]));
  }
  void wait_text(std::string_view text) {
    while (text_.find(text) == std::string::npos && read_more()) {
    }
  }
  void send(int signal) { kill(pid_, signal); }
  // Everything it wrote to stderr, once it has ended.
  const std::string& wait_end() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0);
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    pid_ = -1;
    return text_;
  }
  int exit_code() const { return exit_code_; }

 private:
  bool read_more() {
    char bytes[4096];
    const ssize_t n = read(stderr_, bytes, sizeof bytes);
    if (n <= 0) return false;
    text_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  pid_t pid_ = -1;
  int stderr_ = -1;
  std::string text_;
  int exit_code_ = -1;
};

}  // namespace tempo9::testing
