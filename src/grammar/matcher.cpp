#include "grammar/matcher.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"
#include "grammar/stacks.h"

namespace tempo9::grammar {
namespace {

// The counter behind an edge, or nothing where the limits that the edge names close it. Without a maximum, counting
// stops at the minimum: then readings that differ only beyond it are equal.
std::optional<uint32_t> counted(const Automaton& automaton, const Edge& edge, uint32_t count) {
  if (edge.count == Edge::Count::kNothing) return count;
  const Limits& limits = automaton.limits(edge);
  if (edge.count == Edge::Count::kEnough) return count >= limits.min ? std::optional(count) : std::nullopt;
  if (limits.max == Limits::kUnlimited) return std::min(count + 1, limits.min);
  return count < limits.max ? std::optional(count + 1) : std::nullopt;
}

// The same, and nothing too where what must follow no longer has room under the maximum.
std::optional<uint32_t> count_behind(const Automaton& automaton, const Edge& edge, uint32_t count) {
  const std::optional<uint32_t> behind = counted(automaton, edge, count);
  return behind && automaton.has_room(edge.target, *behind) ? behind : std::nullopt;
}

}  // namespace

class Matcher::Shared {
 public:
  explicit Shared(const Automaton& automaton) : automaton_(automaton) {}

  // All readings that `reading` leads to without a byte, itself included, are added to `out` once; those that neither
  // take a byte nor end the output are left out in the end.
  void start(std::vector<Reading>& out) {
    out.clear();
    add({.node = automaton_.start(automaton_.root())}, out);
    close(out);
  }

  // The readings after one more byte; none where it is not allowed.
  void step(const std::vector<Reading>& from, uint8_t byte, std::vector<Reading>& out) {
    out.clear();
    for (const Reading& reading : from) {
      for (const Edge& edge : automaton_.edges(reading.node)) {
        if (edge.kind != Edge::Kind::kBytes || byte < edge.first || byte > edge.last) continue;
        const std::optional<uint32_t> count = count_behind(automaton_, edge, reading.count);
        if (count) add({edge.target, *count, reading.stack}, out);
      }
    }
    close(out);
  }

  bool ends(const Reading& reading) const {
    return reading.stack == Stacks::kEmpty && std::ranges::any_of(automaton_.edges(reading.node), [](const Edge& edge) {
             return edge.kind == Edge::Kind::kReturn;
           });
  }
  bool takes_bytes(const Reading& reading) const {
    return std::ranges::any_of(automaton_.edges(reading.node),
                               [](const Edge& edge) { return edge.kind == Edge::Kind::kBytes; });
  }

  void find_allowed(const std::vector<Reading>& readings, const TokenTrie& trie, TokenMask& mask) {
    for (const Known& known : known_masks_) {
      if (known.trie == &trie && known.readings == readings) {
        mask = known.mask;
        return;
      }
    }
    mask.clear();
    if (add_plain(readings, trie, mask)) {
      walk(trie.not_plain(), trie.longest(), readings, mask);
    } else {
      walk(trie.all(), trie.longest(), readings, mask);
    }
    known_masks_[next_known_++ % known_masks_.size()] = {&trie, readings, mask};
  }

 private:
  struct Known {
    const TokenTrie* trie = nullptr;
    std::vector<Reading> readings;
    TokenMask mask;
  };

  static void add(const Reading& reading, std::vector<Reading>& out) {
    if (std::ranges::find(out, reading) == out.end()) out.push_back(reading);
  }

  void close(std::vector<Reading>& out) {
    bool is_closed = true;
    for (size_t i = 0; i < out.size(); ++i) {
      const Reading reading = out[i];
      if (!automaton_.moves(reading.node)) continue;
      is_closed = false;
      for (const Edge& edge : automaton_.edges(reading.node)) {
        if (edge.kind != Edge::Kind::kBytes) follow(edge, reading, out);
      }
    }
    if (is_closed) return;
    std::erase_if(out, [&](const Reading& reading) { return !takes_bytes(reading) && !ends(reading); });
  }

  void follow(const Edge& edge, const Reading& reading, std::vector<Reading>& out) {
    if (edge.kind == Edge::Kind::kReturn) {
      if (reading.stack == Stacks::kEmpty) return;
      const Stacks::Frame frame = stacks_.top(reading.stack);
      add({frame.node, frame.count, frame.below}, out);
    } else if (edge.kind == Edge::Kind::kCall) {
      if (stacks_.depth(reading.stack) == kMaxDepth || !automaton_.has_room(edge.target, reading.count)) return;
      add({automaton_.start(edge.rule), 0, stacks_.push(reading.stack, edge.target, reading.count)}, out);
    } else if (const std::optional<uint32_t> count = count_behind(automaton_, edge, reading.count)) {
      add({edge.target, *count, reading.stack}, out);
    }
  }

  // How many characters of text may follow where `reading` stands in text; nothing where it does not.
  std::optional<uint32_t> text_left(const Reading& reading) const {
    if (!automaton_.is_text(reading.node)) return std::nullopt;
    for (const Edge& edge : automaton_.edges(reading.node)) {
      if (edge.count != Edge::Count::kTake) continue;
      const Limits& limits = automaton_.limits(edge);
      return limits.max == Limits::kUnlimited ? limits.max : limits.max - std::min(limits.max, reading.count);
    }
    return Limits::kUnlimited;
  }

  // Adds all plain tokens that are allowed, when text is all that matters for them; else returns false.
  bool add_plain(const std::vector<Reading>& readings, const TokenTrie& trie, TokenMask& mask) const {
    for (const Reading& reading : readings) {
      const std::optional<uint32_t> left = text_left(reading);
      if (!left) continue;
      if (*left >= trie.longest_plain()) {
        mask.add(trie.plain());
        return true;
      }
      if (readings.size() == 1) {
        trie.add_plain_up_to(*left, mask);
        return true;
      }
    }
    return false;
  }

  // Any `n` plain characters may follow.
  bool is_at_text(const std::vector<Reading>& readings, size_t n) const {
    return std::ranges::any_of(readings, [&](const Reading& reading) {
      const std::optional<uint32_t> left = text_left(reading);
      return left && *left >= n;
    });
  }

  // `longest`: of the tree's tokens, in bytes.
  void walk(const TokenTrie::Tree& tree, size_t longest, const std::vector<Reading>& readings, TokenMask& mask) {
    if (levels_.empty()) levels_.emplace_back();
    levels_[0] = readings;
    ends_.clear();
    const std::span<const TokenTrie::Node> nodes = tree.nodes();
    for (uint32_t i = 0; i < nodes.size();) {
      const TokenTrie::Node& node = nodes[i];
      while (!ends_.empty() && ends_.back() == i) ends_.pop_back();
      const size_t depth = ends_.size();
      if (levels_.size() == depth + 1) levels_.emplace_back();
      step(levels_[depth], node.byte, levels_[depth + 1]);
      if (levels_[depth + 1].empty()) {
        i = node.end;
        continue;
      }
      if (node.is_plain_below && is_at_text(levels_[depth + 1], longest)) {
        for (const int32_t id : tree.tokens_from(node)) mask.set(id);
        i = node.end;
        continue;
      }
      for (const int32_t id : tree.tokens(node)) mask.set(id);
      if (node.end > i + 1) ends_.push_back(node.end);
      ++i;
    }
  }

  const Automaton& automaton_;
  Stacks stacks_;
  // Text keeps its readings from token to token, and so its mask.
  std::array<Known, 16> known_masks_;
  size_t next_known_ = 0;
  std::vector<std::vector<Reading>> levels_;  // readings by depth in a trie
  std::vector<uint32_t> ends_;                // of the nodes on the path to the current one
};

Matcher::Matcher(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), shared_(std::make_shared<Shared>(grammar_->automaton())) {
  shared_->start(readings_);
}

Matcher::Matcher(const Matcher&) = default;
Matcher& Matcher::operator=(const Matcher&) = default;
Matcher::Matcher(Matcher&&) noexcept = default;
Matcher& Matcher::operator=(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

bool Matcher::accept(std::string_view bytes) {
  std::vector<Reading> here = readings_;
  std::vector<Reading> next;
  for (const char byte : bytes) {
    shared_->step(here, static_cast<uint8_t>(byte), next);
    if (next.empty()) return false;
    std::swap(here, next);
  }
  readings_ = std::move(here);
  return true;
}

bool Matcher::can_end() const {
  return std::ranges::any_of(readings_, [&](const Reading& reading) { return shared_->ends(reading); });
}

bool Matcher::can_continue() const {
  return std::ranges::any_of(readings_, [&](const Reading& reading) { return shared_->takes_bytes(reading); });
}

void Matcher::allowed_tokens(const TokenTrie& trie, TokenMask& mask) const {
  shared_->find_allowed(readings_, trie, mask);
}

}  // namespace tempo9::grammar
