// The terminal of `tempo9 chat`: lines in, text out, and Ctrl-C as something that is noticed instead of the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tempo9::cli {

// At most one at a time: it takes SIGINT, and gives it back at the end. Without a terminal, input and output are plain
// bytes: no prompts, no colours, no thoughts.
class ChatTerminal {
 public:
  ChatTerminal();
  ~ChatTerminal();
  ChatTerminal(const ChatTerminal&) = delete;
  ChatTerminal& operator=(const ChatTerminal&) = delete;

  struct Input {
    enum class Kind { kLine, kEnd, kInterrupt } kind = Kind::kEnd;
    std::string line;  // without its end
  };
  // Shows the prompt and waits.
  Input read_line(std::string_view prompt);

  // Can be read after a Ctrl-C, until take_interrupt().
  int interrupt_fd() const;
  // Whether there was one since the last call.
  bool take_interrupt();

  // A part of the answer, to stdout. False when nobody reads it any more.
  bool write_answer(std::string_view text);
  // A part of what the model thought: on a terminal only.
  void write_thought(std::string_view text);
  // Ends the line that an answer or a thought is on.
  void end_line();
  // A line about the chat, to stderr.
  void note(std::string_view text);
  // Only where somebody sits before it.
  void hint(std::string_view text);

 private:
  std::optional<std::string> take_line();
  std::string dim(std::string_view text) const;

  const bool reads_terminal_;
  const bool writes_terminal_;
  const bool has_colours_;
  std::string unread_;
  bool is_at_end_ = false;
  bool is_line_open_ = false;
  bool is_thinking_ = false;
};

}  // namespace tempo9::cli
