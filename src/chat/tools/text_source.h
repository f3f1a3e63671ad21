// Text that arrives in pieces, for a parser that is a coroutine: what it awaits is there, or the text has ended. What
// it decides never depends on how the text was cut.
#pragma once

#include <coroutine>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace tempo9::chat::tools {

enum class EndReason : unsigned char {
  kStop,    // the model ended its answer
  kLength,  // a limit did
};

class TextSource {
 public:
  class Checkpoint;

  // The producer's side. Resumes the coroutine that waits when it can go on. REQUIRES: not ended.
  void append(std::string_view text);
  void end(EndReason reason);

  bool has_ended() const { return has_ended_; }
  EndReason end_reason() const { return end_reason_; }  // once ended
  // The text has ended, and for its length: nothing more of a call may be guessed.
  bool was_cut() const { return has_ended_ && end_reason_ == EndReason::kLength; }
  // Whether an answer since the last time this was asked rests on the end of the text: more text could have made it
  // another.
  bool take_end_mattered() { return std::exchange(end_mattered_, false); }

  // The reader's side. Positions count bytes from the beginning of the whole text.
  size_t position() const { return discarded_ + cursor_; }
  std::string_view ahead() const { return std::string_view(buffer_).substr(cursor_); }
  void advance(size_t n_bytes) { cursor_ += n_bytes; }  // REQUIRES: n_bytes <= ahead().size()
  // REQUIRES: a Checkpoint that lives was made at or before `position`.
  void rewind(size_t position) { cursor_ = position - discarded_; }
  std::string_view text(size_t begin, size_t end) const {
    return std::string_view(buffer_).substr(begin - discarded_, end - begin);
  }

  // Awaitables. They answer as soon as the text that has arrived decides.
  auto need(size_t n_bytes) { return Need(*this, n_bytes); }  // bool: so many bytes are ahead; false: it ends before
  auto peek() { return Peek(*this); }                         // int: the next byte, or -1 at the end
  auto at(std::string_view text) { return At(*this, text); }  // bool: `text` comes next; the cursor stays
  auto skip_space() { return SkipSpace(*this); }              // JSON white space

 private:
  class Waiter {
   public:
    explicit Waiter(TextSource& source) : source_(source) {}
    virtual ~Waiter() = default;
    virtual bool is_ready() = 0;
    bool await_ready() { return is_ready(); }
    void await_suspend(std::coroutine_handle<> reader) {
      reader_ = reader;
      source_.waiting_ = this;
    }
    void resume() { reader_.resume(); }

   protected:
    TextSource& source_;

   private:
    std::coroutine_handle<> reader_;
  };

  class Need : public Waiter {
   public:
    Need(TextSource& source, size_t n_bytes) : Waiter(source), n_bytes_(n_bytes) {}
    bool is_ready() override { return has_enough() || source_.has_ended_; }
    bool await_resume() const {
      if (!has_enough()) source_.end_mattered_ = true;
      return has_enough();
    }

   private:
    bool has_enough() const { return source_.ahead().size() >= n_bytes_; }

    size_t n_bytes_;
  };

  class Peek : public Waiter {
   public:
    using Waiter::Waiter;
    bool is_ready() override { return !source_.ahead().empty() || source_.has_ended_; }
    int await_resume() const {
      if (!source_.ahead().empty()) return static_cast<unsigned char>(source_.ahead().front());
      source_.end_mattered_ = true;
      return -1;
    }
  };

  class At : public Waiter {
   public:
    At(TextSource& source, std::string_view text) : Waiter(source), text_(text) {}
    bool is_ready() override { return source_.has_ended_ || !is_open(); }
    bool await_resume() const {
      if (is_open()) source_.end_mattered_ = true;
      return source_.ahead().starts_with(text_);
    }

   private:
    // More text can still make it the marker.
    bool is_open() const {
      const std::string_view ahead = source_.ahead();
      return ahead.size() < text_.size() && text_.starts_with(ahead);
    }

    std::string_view text_;
  };

  class SkipSpace : public Waiter {
   public:
    using Waiter::Waiter;
    bool is_ready() override;
    void await_resume() const {}
  };

  void resume_reader();

  std::string buffer_;    // from the oldest checkpoint, or the cursor, on
  size_t discarded_ = 0;  // bytes before it
  size_t cursor_ = 0;     // in buffer_
  size_t n_checkpoints_ = 0;
  size_t kept_from_ = 0;  // in buffer_; with checkpoints: the oldest one's place
  bool has_ended_ = false;
  EndReason end_reason_ = EndReason::kStop;
  bool end_mattered_ = false;
  Waiter* waiting_ = nullptr;
};

// While it lives, the text from where the cursor stood can be read again. Checkpoints nest.
class TextSource::Checkpoint {
 public:
  explicit Checkpoint(TextSource& source) : source_(source), position_(source.position()) {
    if (source_.n_checkpoints_++ == 0) source_.kept_from_ = source_.cursor_;
  }
  ~Checkpoint() { --source_.n_checkpoints_; }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  size_t position() const { return position_; }
  void rewind() { source_.rewind(position_); }
  // From here to the cursor.
  std::string_view text() const { return source_.text(position_, source_.position()); }

 private:
  TextSource& source_;
  const size_t position_;
};

}  // namespace tempo9::chat::tools
