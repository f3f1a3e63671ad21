#include "chat/tools/text_source.h"

#include <utility>

#include "chat/tools/json_strings.h"

namespace tempo9::chat::tools {

void TextSource::append(std::string_view text) {
  const size_t n_unneeded = n_checkpoints_ > 0 ? kept_from_ : cursor_;
  buffer_.erase(0, n_unneeded);
  discarded_ += n_unneeded;
  cursor_ -= n_unneeded;
  kept_from_ = 0;
  buffer_ += text;
  resume_reader();
}

void TextSource::end(EndReason reason) {
  has_ended_ = true;
  end_reason_ = reason;
  resume_reader();
}

void TextSource::resume_reader() {
  while (waiting_ && waiting_->is_ready()) std::exchange(waiting_, nullptr)->resume();
}

bool TextSource::SkipSpace::is_ready() {
  std::string_view ahead = source_.ahead();
  size_t n = 0;
  while (n < ahead.size() && is_json_space(ahead[n])) ++n;
  source_.advance(n);
  return n < ahead.size() || source_.has_ended_;
}

}  // namespace tempo9::chat::tools
