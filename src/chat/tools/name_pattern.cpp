#include "chat/tools/name_pattern.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tempo9::chat::tools {
namespace {

constexpr size_t kMaxPattern = 1000;
constexpr size_t kMaxName = 1000;
constexpr int kMaxDepth = 30;     // of groups
constexpr int kMaxRepeat = 1000;  // stands for infinity as well: names are not longer
constexpr int kMaxSteps = 20'000;

struct Node;
using Sequence = std::vector<Node>;

// Something with a quantifier behind it.
struct Node {
  enum class Kind { kByteSet, kBegin, kEnd, kGroup } kind = Kind::kByteSet;
  std::vector<bool> bytes;             // kByteSet
  std::vector<Sequence> alternatives;  // kGroup
  int min = 1;
  int max = 1;
};

void add_range(std::vector<bool>& bytes, unsigned first, unsigned last) {
  for (unsigned b = first; b <= last; ++b) bytes[b] = true;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : rest_(pattern) {}

  std::optional<std::vector<Sequence>> parse() {
    auto alternatives = parse_alternatives(0);
    return is_valid_ && rest_.empty() ? std::optional(std::move(alternatives)) : std::nullopt;
  }

 private:
  std::vector<Sequence> parse_alternatives(int depth) {
    std::vector<Sequence> alternatives(1);
    while (is_valid_ && !rest_.empty() && !rest_.starts_with(')')) {
      if (take('|')) {
        alternatives.emplace_back();
      } else {
        Node node = parse_atom(depth);
        parse_quantifier(node);
        alternatives.back().push_back(std::move(node));
      }
    }
    return alternatives;
  }

  Node parse_atom(int depth) {
    Node node;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '^' || c == '$') {
      node.kind = c == '^' ? Node::Kind::kBegin : Node::Kind::kEnd;
    } else if (c == '(') {
      parse_group(node, depth);
    } else {
      node.bytes.assign(256, false);
      if (c == '[') {
        parse_class(node.bytes);
      } else if (c == '.') {
        node.bytes.assign(256, true);
      } else if (c == '\\') {
        add_escape(node.bytes);
      } else {
        is_valid_ = is_valid_ && c != '*' && c != '+' && c != '?' && c != '{';
        node.bytes[static_cast<unsigned char>(c)] = true;
      }
    }
    return node;
  }

  void parse_group(Node& node, int depth) {
    node.kind = Node::Kind::kGroup;
    if (take('?') && !take(':')) is_valid_ = false;
    if (depth >= kMaxDepth) is_valid_ = false;
    if (is_valid_) node.alternatives = parse_alternatives(depth + 1);
    if (!take(')')) is_valid_ = false;
  }

  void add_escape(std::vector<bool>& bytes) {
    if (rest_.empty()) {
      is_valid_ = false;
      return;
    }
    const char c = rest_.front();
    rest_.remove_prefix(1);
    std::vector<bool> set(256, false);
    const char kind = static_cast<char>(c | 0x20);
    if (kind == 'd' || kind == 'w') add_range(set, '0', '9');
    if (kind == 'w') {
      add_range(set, 'a', 'z');
      add_range(set, 'A', 'Z');
      set['_'] = true;
    } else if (kind == 's') {
      for (const char space : {' ', '\t', '\n', '\r', '\f', '\v'}) set[static_cast<size_t>(space)] = true;
    } else if (kind != 'd') {
      const bool is_letter = kind >= 'a' && kind <= 'z';
      if (is_letter || (c >= '0' && c <= '9')) is_valid_ = false;
      set[static_cast<unsigned char>(c)] = true;
    }
    const bool is_complement = c == 'D' || c == 'W' || c == 'S';
    for (size_t b = 0; b < 256; ++b) bytes[b] = bytes[b] || set[b] != is_complement;
  }

  void parse_class(std::vector<bool>& bytes) {
    const bool is_complement = take('^');
    for (bool is_first = true; !rest_.empty() && (is_first || !rest_.starts_with(']')); is_first = false) {
      const auto first = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      if (first == '\\') {
        add_escape(bytes);
      } else if (rest_.size() >= 2 && rest_[0] == '-' && rest_[1] != ']') {
        const auto last = static_cast<unsigned char>(rest_[1]);
        rest_.remove_prefix(2);
        if (last < first || last == '\\') is_valid_ = false;
        add_range(bytes, first, last);
      } else {
        bytes[first] = true;
      }
    }
    if (!take(']')) is_valid_ = false;
    if (is_complement) bytes.flip();
  }

  void parse_quantifier(Node& node) {
    if (take('*')) {
      node.min = 0;
      node.max = kMaxRepeat;
    } else if (take('+')) {
      node.max = kMaxRepeat;
    } else if (take('?')) {
      node.min = 0;
    } else if (take('{')) {
      node.min = take_count();
      node.max = take(',') ? (rest_.starts_with('}') ? kMaxRepeat : take_count()) : node.min;
      if (!take('}') || node.max < node.min) is_valid_ = false;
    } else {
      return;
    }
    take('?');  // lazy: the same set of matches
  }

  int take_count() {
    int count = 0;
    const auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), count);
    if (problem != std::errc() || count < 0 || count > kMaxRepeat) is_valid_ = false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return count;
  }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
  bool is_valid_ = true;
};

// Backtracking with a budget.
class Matcher {
 public:
  explicit Matcher(std::string_view name) : name_(name) {}

  using Then = std::function<bool(size_t)>;

  bool match_any(const std::vector<Sequence>& alternatives, size_t pos, const Then& then) {
    return std::ranges::any_of(alternatives, [&](const Sequence& s) { return match(s, 0, pos, then); });
  }

 private:
  bool match(const Sequence& sequence, size_t i, size_t pos, const Then& then) {
    if (i == sequence.size()) return then(pos);
    return repeat(sequence[i], 0, pos, [&](size_t end) { return match(sequence, i + 1, end, then); });
  }

  bool repeat(const Node& node, int n, size_t pos, const Then& then) {
    if (--steps_left_ < 0) return false;
    const auto again = [&](size_t end) { return (end > pos || n < node.min) && repeat(node, n + 1, end, then); };
    if (n < node.max && match_once(node, pos, again)) return true;
    return n >= node.min && then(pos);
  }

  bool match_once(const Node& node, size_t pos, const Then& then) {
    switch (node.kind) {
      case Node::Kind::kBegin:
        return pos == 0 && then(pos);
      case Node::Kind::kEnd:
        return pos == name_.size() && then(pos);
      case Node::Kind::kByteSet:
        return pos < name_.size() && node.bytes[static_cast<unsigned char>(name_[pos])] && then(pos + 1);
      case Node::Kind::kGroup:
        return match_any(node.alternatives, pos, then);
    }
    return false;
  }

  std::string_view name_;
  int steps_left_ = kMaxSteps;
};

}  // namespace

bool name_matches(std::string_view pattern, std::string_view name) {
  if (pattern.size() > kMaxPattern || name.size() > kMaxName) return false;
  const auto alternatives = Parser(pattern).parse();
  if (!alternatives) return false;
  Matcher matcher(name);
  for (size_t begin = 0; begin <= name.size(); ++begin) {
    if (matcher.match_any(*alternatives, begin, [](size_t) { return true; })) return true;
  }
  return false;
}

}  // namespace tempo9::chat::tools
