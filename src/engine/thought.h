// Ends a thought that gets too long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "engine/request.h"

namespace tempo9::engine {

// Where one answer is in its thought. It depends on the answer's tokens alone, so it is the same however they were
// computed. One thread at a time.
class Thought {
 public:
  explicit Thought(ThoughtLimit limit);

  // The token that must come next, whatever the model would write.
  std::optional<int32_t> forced() const;
  // Follows a token; `piece` is its text. Another one than forced() ends the forcing: a grammar did not allow it.
  void accept(int32_t token, std::string_view piece);

 private:
  enum class Place : uint8_t { kBefore, kInside, kEnding, kBehind };

  void read_beginning(std::string_view piece);
  void read_inside(std::string_view piece);

  ThoughtLimit limit_;
  Place place_;
  std::string text_;       // before: all of it; inside: as much as a part of the closing mark can be
  Utf8Joiner characters_;  // a thought is not cut inside a character
  int64_t n_inside_ = 0;
  size_t n_written_ = 0;  // of limit_.end
};

}  // namespace tempo9::engine
