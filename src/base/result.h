// Errors as values. A function that can fail because of something outside the program (a file, a request, a
// template, memory) returns Result<T>. Our own mistakes are T9_CHECK's business (base/check.h).
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tempo9 {

enum class ErrorCode : uint8_t {
  kInvalidInput,   // what was given is malformed or out of range
  kNotFound,       // what was named does not exist
  kUnsupported,    // understood, and not implemented
  kOutOfCapacity,  // a queue, a page pool or a limit is full; may work later
  kCancelled,      // the caller went away or asked to stop
  kIo,             // the operating system said no
  kInternal,       // our fault
};

// A code, a message for people, and what the API dialects need to build their own error bodies.
class Error {
 public:
  // Both numbers of "your prompt does not fit": tokens given and tokens allowed.
  struct Overflow {
    int64_t n_tokens = 0;
    int64_t limit = 0;
  };

  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // Path of the request field that is wrong, e.g. "messages[2].content"; empty when none is to blame.
  const std::string& field() const { return field_; }
  // Short machine-readable reason, e.g. "invalid_type", "context_length_exceeded"; empty when the code says it all.
  const std::string& reason() const { return reason_; }
  const std::optional<Overflow>& overflow() const { return overflow_; }

  // Each layer that knows more puts it in front: "model.gguf: tensor x: offset 918 is past the end (900)".
  Error context(std::string_view prefix) && {
    message_ = std::string(prefix) + ": " + message_;
    return std::move(*this);
  }
  Error with_field(std::string field) && {
    field_ = std::move(field);
    return std::move(*this);
  }
  Error with_reason(std::string reason) && {
    reason_ = std::move(reason);
    return std::move(*this);
  }
  Error with_overflow(int64_t n_tokens, int64_t limit) && {
    overflow_ = Overflow{n_tokens, limit};
    return std::move(*this);
  }

 private:
  ErrorCode code_;
  std::string message_;
  std::string field_;
  std::string reason_;
  std::optional<Overflow> overflow_;
};

template <class T>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error(code, std::move(message)));
}
inline std::unexpected<Error> fail(Error error) { return std::unexpected<Error>(std::move(error)); }

#define T9_CONCAT_INNER(a, b) a##b
#define T9_CONCAT(a, b) T9_CONCAT_INNER(a, b)

// T9_TRY(name, expr): evaluates a Result<T>; returns its error from the enclosing function, or declares `name` with
// the value. T9_TRY_VOID is the same for Result<void>.
#define T9_TRY(name, expr)                                                                       \
  auto T9_CONCAT(t9_result_, __LINE__) = (expr);                                                 \
  if (!T9_CONCAT(t9_result_, __LINE__))                                                          \
    return std::unexpected<::tempo9::Error>(std::move(T9_CONCAT(t9_result_, __LINE__)).error()); \
  auto name = *std::move(T9_CONCAT(t9_result_, __LINE__))
#define T9_TRY_VOID(expr)                                                                  \
  do {                                                                                     \
    auto t9_result = (expr);                                                               \
    if (!t9_result) return std::unexpected<::tempo9::Error>(std::move(t9_result).error()); \
  } while (false)

}  // namespace tempo9
