#include "cli/chat_terminal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tempo9::cli {

namespace {

// The handler's only way out: a byte for each Ctrl-C. Set while there is a ChatTerminal.
std::array<int, 2> interrupt_pipe = {-1, -1};

void note_interrupt(int) {
  const int reason = errno;
  [[maybe_unused]] const ssize_t n = write(interrupt_pipe[1], "", 1);  // a full pipe has been noticed already
  errno = reason;
}

// What a model writes must not move the cursor or set the terminal's title.
std::string without_controls(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const bool is_control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (!is_control) plain += c;
  }
  return plain;
}

}  // namespace

ChatTerminal::ChatTerminal()
    : reads_terminal_(isatty(STDIN_FILENO) != 0),
      writes_terminal_(isatty(STDOUT_FILENO) != 0),
      has_colours_(writes_terminal_ && std::getenv("NO_COLOR") == nullptr) {
  if (pipe2(interrupt_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) interrupt_pipe = {-1, -1};
  struct sigaction action {};
  action.sa_handler = note_interrupt;
  sigaction(SIGINT, &action, nullptr);
}

ChatTerminal::~ChatTerminal() {
  std::signal(SIGINT, SIG_DFL);
  for (int& end : interrupt_pipe) close(std::exchange(end, -1));
}

int ChatTerminal::interrupt_fd() const { return interrupt_pipe[0]; }

bool ChatTerminal::take_interrupt() {
  std::array<char, 64> bytes;
  bool was_one = false;
  while (read(interrupt_pipe[0], bytes.data(), bytes.size()) > 0) was_one = true;
  return was_one;
}

// A last line counts without its end too.
std::optional<std::string> ChatTerminal::take_line() {
  const size_t end = unread_.find('\n');
  if (end == std::string::npos && !(is_at_end_ && !unread_.empty())) return std::nullopt;
  std::string line = unread_.substr(0, end);
  unread_.erase(0, end == std::string::npos ? end : end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

ChatTerminal::Input ChatTerminal::read_line(std::string_view prompt) {
  if (reads_terminal_) {
    fmt::print(stderr, "{}", prompt);
    std::fflush(stderr);
  }
  for (;;) {
    if (auto line = take_line()) return {Input::Kind::kLine, *std::move(line)};
    if (is_at_end_) return {Input::Kind::kEnd, {}};
    std::array<pollfd, 2> wanted = {
        {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}, {.fd = interrupt_fd(), .events = POLLIN, .revents = 0}}};
    if (poll(wanted.data(), wanted.size(), -1) < 0) continue;
    if (take_interrupt()) return {Input::Kind::kInterrupt, {}};
    std::array<char, 4096> bytes;
    const ssize_t n = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (n > 0) unread_.append(bytes.data(), static_cast<size_t>(n));
    is_at_end_ = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
  }
}

bool ChatTerminal::write_answer(std::string_view text) {
  if (text.empty()) return true;
  if (is_thinking_) end_line();
  const std::string shown = writes_terminal_ ? without_controls(text) : std::string(text);
  is_line_open_ = !shown.ends_with('\n');
  const bool is_written = std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size();
  return std::fflush(stdout) == 0 && is_written;
}

void ChatTerminal::write_thought(std::string_view text) {
  if (!writes_terminal_ || text.empty()) return;
  is_thinking_ = true;
  is_line_open_ = true;
  fmt::print("{}", dim(without_controls(text)));
  std::fflush(stdout);
}

void ChatTerminal::end_line() {
  if (is_line_open_) fmt::print("\n");
  std::fflush(stdout);
  is_line_open_ = false;
  is_thinking_ = false;
}

void ChatTerminal::note(std::string_view text) {
  end_line();
  fmt::print(stderr, "{}\n", isatty(STDERR_FILENO) != 0 ? dim(text) : std::string(text));
}

void ChatTerminal::hint(std::string_view text) {
  if (reads_terminal_) note(text);
}

std::string ChatTerminal::dim(std::string_view text) const {
  return has_colours_ ? fmt::format("\x1b[2m{}\x1b[0m", text) : std::string(text);
}

}  // namespace tempo9::cli
