#include "tokenizer/space_mark.h"

#include <algorithm>

namespace tempo9::tokenizer {

void append_marked(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out += c;
    }
  }
}

std::string spaces_for_marks(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t mark = std::min(text.find(kSpaceMark, pos), text.size());
    out += text.substr(pos, mark - pos);
    if (mark < text.size()) out += ' ';
    pos = mark + kSpaceMark.size();
  }
  return out;
}

}  // namespace tempo9::tokenizer
