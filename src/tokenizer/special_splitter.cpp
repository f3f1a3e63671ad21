#include "tokenizer/special_splitter.h"

namespace tempo9::tokenizer {

void TrustCursor::move_to(size_t pos) {
  while (!ranges_.empty() && ranges_.front().end <= pos) ranges_ = ranges_.subspan(1);
  trusted_ = everywhere_;
  limit_ = text_size_;
  if (ranges_.empty()) return;
  trusted_ = pos >= ranges_.front().begin;
  limit_ = trusted_ ? ranges_.front().end : ranges_.front().begin;
}

SpecialSplitter::SpecialSplitter(const Vocabulary& vocabulary) {
  roots_.fill(kNone);
  for (int32_t id = 0; id < static_cast<int32_t>(vocabulary.size()); ++id) {
    const bool guarded = vocabulary.is_guarded_special(id);
    if (guarded || vocabulary.type(id) == TokenType::kUserDefined) add(vocabulary.text(id), id, guarded);
  }
}

// The texts of a vocabulary are unique and not empty.
void SpecialSplitter::add(std::string_view text, int32_t id, bool guarded) {
  const auto new_node = [&] {
    nodes_.emplace_back();
    return static_cast<int32_t>(nodes_.size() - 1);
  };
  int32_t& root = roots_[static_cast<uint8_t>(text.front())];
  if (root == kNone) root = new_node();
  int32_t node = root;
  for (const char c : text.substr(1)) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next == kNone) {
      next = new_node();
      nodes_[static_cast<size_t>(node)].edges.push_back({byte, next});
    }
    node = next;
  }
  nodes_[static_cast<size_t>(node)].id = id;
  nodes_[static_cast<size_t>(node)].guarded = guarded;
}

int32_t SpecialSplitter::child(int32_t node, uint8_t byte) const {
  for (const Edge& edge : nodes_[static_cast<size_t>(node)].edges) {
    if (edge.byte == byte) return edge.node;
  }
  return kNone;
}

std::optional<SpecialSplitter::Match> SpecialSplitter::longest_at(std::string_view text, size_t pos,
                                                                  const TrustCursor& trust) const {
  std::optional<Match> longest;
  size_t end = pos;
  int32_t node = roots_[static_cast<uint8_t>(text[pos])];
  while (node != kNone) {
    ++end;
    const Node& here = nodes_[static_cast<size_t>(node)];
    if (here.id != kNone && (trust.trusted() || !here.guarded)) longest = Match{pos, end, here.id};
    if (end == trust.limit()) break;
    node = child(node, static_cast<uint8_t>(text[end]));
  }
  return longest;
}

std::optional<SpecialSplitter::Match> SpecialSplitter::find_next(std::string_view text, size_t pos,
                                                                 TrustCursor& trust) const {
  for (; pos < text.size(); ++pos) {
    if (roots_[static_cast<uint8_t>(text[pos])] == kNone) continue;
    trust.move_to(pos);
    if (std::optional<Match> match = longest_at(text, pos, trust)) return match;
  }
  return std::nullopt;
}

}  // namespace tempo9::tokenizer
