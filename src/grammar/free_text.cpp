#include "grammar/free_text.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace tempo9::grammar {
namespace {

// Aho and Corasick's automaton over the markers. A character of the text is counted when it is certain that it is not
// part of a marker that ends the text, so that a limit never cuts a marker off.
class FreeTextWriter {
 public:
  FreeTextWriter(AutomatonBuilder& builder, const FreeText& text) : builder_(builder), text_(text), states_(1) {
    for (const TextEnd& end : text_.ends) add_marker(end);
    link();
    for (State& state : states_) {
      if (!state.end) state.node = builder_.add_node();
    }
  }

  void write(NodeId from) {
    for (size_t i = 0; i < states_.size(); ++i) {
      if (!states_[i].end) write_state(states_[i].node, i, /*is_first=*/false);
    }
    const bool is_plain_text =
        std::ranges::none_of(text_.ends, [](const TextEnd& end) { return is_plain(end.marker.front()); });
    if (is_plain_text) builder_.mark_text(states_[0].node);
    size_t start = 0;
    for (const char c : text_.before) start = next_state(start, c);
    if (text_.not_first.empty()) return builder_.add_free(from, states_[start].node);
    const NodeId first = builder_.add_node();
    builder_.add_free(from, first);
    write_state(first, start, /*is_first=*/true);
  }

 private:
  struct State {
    std::map<char, size_t> next;
    size_t fallback = 0;
    size_t depth = 0;
    // Characters that may yet belong to a marker which ends the text.
    size_t n_pending = 0;
    bool begins_end = false;       // a beginning of such a marker
    const TextEnd* end = nullptr;  // a marker is complete
    NodeId node = 0;
  };

  void add_marker(const TextEnd& end) {
    size_t at = 0;
    for (const char c : end.marker) {
      characters_.insert(c);
      states_[at].begins_end |= end.behind.has_value();
      const auto [found, is_new] = states_[at].next.try_emplace(c, states_.size());
      const size_t depth = states_[at].depth + 1;
      at = found->second;
      if (is_new) states_.push_back({.depth = depth});
    }
    states_[at].end = &end;
  }

  void link() {
    std::deque<size_t> open = {0};
    while (!open.empty()) {
      const size_t at = open.front();
      open.pop_front();
      State& state = states_[at];
      const State& fallback = states_[state.fallback];
      if (!state.end) state.end = fallback.end;
      state.n_pending = state.begins_end ? state.depth : fallback.n_pending;
      for (const auto& [c, next] : state.next) {
        states_[next].fallback = at == 0 ? 0 : next_state(state.fallback, c);
        open.push_back(next);
      }
    }
  }

  size_t next_state(size_t at, char c) const {
    while (at != 0 && !states_[at].next.contains(c)) at = states_[at].fallback;
    const auto found = states_[at].next.find(c);
    return found == states_[at].next.end() ? 0 : found->second;
  }

  // The edges of a state. At the beginning of the text white space stays there, and some characters are excluded.
  void write_state(NodeId node, size_t at, bool is_first) {
    if (text_.may_return) builder_.add_return(node);
    if (text_.add_json_escapes) add_escapes(node, at);
    const auto leads_nowhere = [&](char c) { return is_first && text_.not_first.find(c) != std::string::npos; };
    std::set<char> special = characters_;
    special.insert(text_.not_first.begin(), text_.not_first.end());
    if (is_first) special.insert({' ', '\t', '\r', '\n'});
    char32_t begin = 0;
    for (const char c : special) {
      const auto code = static_cast<char32_t>(c);
      if (code > begin) add_others(node, at, begin, code - 1);
      begin = code + 1;
      const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
      if (is_first && is_space) {
        builder_.add_byte(node, c, node);
      } else if (!leads_nowhere(c)) {
        add_character(node, at, c);
      }
    }
    add_others(node, at, begin, kLastCodePoint);
  }

  void add_character(NodeId node, size_t at, char c) {
    const size_t next = next_state(at, c);
    const size_t n_seen = states_[at].n_pending + 1;
    if (const TextEnd* end = states_[next].end) {
      if (!end->behind) return;
      NodeId behind = *end->behind;
      if (text_.characters.any()) {
        behind = builder_.add_node();
        builder_.add_free(behind, *end->behind, Counting::enough(text_.characters));
      }
      return add_counted(node, c, c, behind, n_seen - end->marker.size());
    }
    add_counted(node, c, c, states_[next].node, n_seen - states_[next].n_pending);
  }

  // Characters that are in no marker.
  void add_others(NodeId node, size_t at, char32_t first, char32_t last) {
    const auto add = [&](char32_t low, char32_t high) {
      low = std::max(low, first);
      high = std::min(high, last);
      if (low <= high) add_counted(node, low, high, states_[0].node, states_[at].n_pending + 1);
    };
    if (!text_.add_json_escapes) return add(0, kLastCodePoint);
    add(' ', '\\' - 1);
    add('\\' + 1, kLastCodePoint);
  }

  void add_escapes(NodeId node, size_t at) {
    const size_t n_counted = states_[at].n_pending + 1;
    if (!text_.characters.any()) return text_.add_json_escapes(node, states_[0].node, {});
    text_.add_json_escapes(node, counted(states_[0].node, n_counted - 1), Counting::take(text_.characters));
  }

  void add_counted(NodeId from, char32_t first, char32_t last, NodeId to, size_t n_counted) {
    const bool counts = text_.characters.any() && n_counted > 0;
    if (!counts) return builder_.add_characters(from, first, last, to);
    builder_.add_characters(from, first, last, counted(to, n_counted - 1), Counting::take(text_.characters));
  }
  // A node that leads to `to` and counts so many characters on the way.
  NodeId counted(NodeId to, size_t n) {
    if (n == 0) return to;
    const auto known = counted_.find({to, n});
    if (known != counted_.end()) return known->second;
    const NodeId node = builder_.add_node();
    builder_.add_free(node, counted(to, n - 1), Counting::take(text_.characters));
    counted_.emplace(std::pair(to, n), node);
    return node;
  }

  AutomatonBuilder& builder_;
  const FreeText& text_;
  std::vector<State> states_;
  std::set<char> characters_;
  std::map<std::pair<NodeId, size_t>, NodeId> counted_;
};

}  // namespace

void add_free_text(AutomatonBuilder& builder, NodeId from, const FreeText& text) {
  FreeTextWriter(builder, text).write(from);
}

}  // namespace tempo9::grammar
