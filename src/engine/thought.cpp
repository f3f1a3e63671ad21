#include "engine/thought.h"

#include <algorithm>
#include <utility>

namespace tempo9::engine {

Thought::Thought(ThoughtLimit limit)
    : limit_(std::move(limit)), place_(limit_.is_open ? Place::kInside : Place::kBefore) {}

std::optional<int32_t> Thought::forced() const {
  if (place_ == Place::kEnding) return limit_.end[n_written_];
  const bool is_full = place_ == Place::kInside && n_inside_ >= limit_.max_tokens && !characters_.holds_bytes();
  return is_full ? std::optional(limit_.end.front()) : std::nullopt;
}

void Thought::accept(int32_t token, std::string_view piece) {
  if (const auto expected = forced()) {
    ++n_written_;
    const bool goes_on = token == *expected && n_written_ < limit_.end.size();
    place_ = goes_on ? Place::kEnding : Place::kBehind;
  } else if (place_ == Place::kBefore) {
    read_beginning(piece);
  } else if (place_ == Place::kInside) {
    ++n_inside_;
    read_inside(piece);
  }
}

void Thought::read_beginning(std::string_view piece) {
  text_ += piece;
  const size_t begin = std::min(text_.find_first_not_of(" \t\r\n"), text_.size());
  const std::string_view text = std::string_view(text_).substr(begin);
  if (text.starts_with(limit_.open)) {
    place_ = Place::kInside;
    const std::string inside(text.substr(limit_.open.size()));
    text_.clear();
    read_inside(inside);
  } else if (!limit_.open.starts_with(text)) {
    place_ = Place::kBehind;
  }
}

void Thought::read_inside(std::string_view piece) {
  text_ += piece;
  if (text_.find(limit_.close) != std::string::npos) {
    place_ = Place::kBehind;
    return;
  }
  text_.erase(0, text_.size() - std::min(text_.size(), limit_.close.size() - 1));
  std::string whole;
  characters_.feed(piece, whole);
}

}  // namespace tempo9::engine
