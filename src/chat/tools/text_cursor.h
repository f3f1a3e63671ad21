// Reading a text that is all there from its front, for the parsers of whole values.
#pragma once

#include <string_view>

#include "chat/tools/json_strings.h"

namespace tempo9::chat::tools {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  void skip_space() {
    while (!rest_.empty() && is_json_space(rest_.front())) rest_.remove_prefix(1);
  }
  // Skips white space, then `c`; false, and only the white space is gone, when that does not come.
  bool take(char c) {
    skip_space();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // But for white space.
  bool is_at_end() {
    skip_space();
    return rest_.empty();
  }

 protected:
  std::string_view rest_;
};

}  // namespace tempo9::chat::tools
