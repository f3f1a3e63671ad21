// Where text can be cut before merging, with the same ids as a result (spec tokenizers 6.3).
#pragma once

#include <string_view>

#include "base/utf8.h"
#include "tokenizer/pair_table.h"

namespace tempo9::tokenizer {

// All pairs of characters that stand side by side in some token. No merge crosses any other pair. Filled once and then
// only read, by any thread.
class SplitPoints {
 public:
  // REQUIRES: not empty.
  void add_token(std::string_view text) {
    size_t pos = 0;
    char32_t previous = decode_utf8(text, pos);
    while (pos < text.size()) {
      const char32_t c = decode_utf8(text, pos);
      joints_.insert(previous, c, {0, 0});
      previous = c;
    }
  }

  // Calls visit(part) for each part of `text` in order, as long as it returns true. Parts are never empty.
  template <class Visit>
  void for_each_part(std::string_view text, Visit&& visit) const {
    size_t begin = 0;
    size_t pos = 0;
    char32_t previous = 0;
    while (pos < text.size()) {
      const size_t here = pos;
      const char32_t c = decode_utf8(text, pos);
      if (here > begin && !joints_.find(previous, c).exists()) {
        if (!visit(text.substr(begin, here - begin))) return;
        begin = here;
      }
      previous = c;
    }
    if (begin < text.size()) visit(text.substr(begin));
  }

 private:
  PairTable joints_;
};

}  // namespace tempo9::tokenizer
