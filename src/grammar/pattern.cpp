#include "grammar/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace tempo9::grammar {
namespace {

constexpr int kMaxGroups = 64;
constexpr uint32_t kMaxRepeats = 2000;

struct Range {
  char32_t first;
  char32_t last;
};
using Ranges = std::vector<Range>;

const Ranges kDigits = {{'0', '9'}};
const Ranges kWordCharacters = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpaces = {{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                        {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

Ranges complement(Ranges ranges) {
  std::ranges::sort(ranges, {}, &Range::first);
  Ranges out;
  char32_t next = 0;
  for (const Range& range : ranges) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kLastCodePoint) out.push_back({next, kLastCodePoint});
  return out;
}

struct Expression {
  enum class Kind : uint8_t { kCharacter, kSequence, kChoice, kRepeat };
  Kind kind = Kind::kSequence;
  Ranges characters = {};              // kCharacter: one of these
  std::vector<Expression> parts = {};  // kRepeat: one
  Limits times = {};                   // kRepeat
  bool at_start = false;               // kSequence of the whole pattern: anchored
  bool at_end = false;
};

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<Expression> parse() {
    T9_TRY(whole, parse_choice(0));
    if (pos_ < text_.size()) return fail(ErrorCode::kInvalidInput, "an unmatched )");
    return whole;
  }

 private:
  bool at(std::string_view what) const { return text_.substr(pos_).starts_with(what); }
  bool skip(std::string_view what) {
    if (!at(what)) return false;
    pos_ += what.size();
    return true;
  }
  bool is_at_end_of_alternative() const { return pos_ == text_.size() || at("|") || at(")"); }

  Result<Expression> parse_choice(int depth) {
    if (depth > kMaxGroups) return fail(ErrorCode::kUnsupported, fmt::format("groups deeper than {}", kMaxGroups));
    Expression choice{.kind = Expression::Kind::kChoice};
    do {
      T9_TRY(sequence, parse_sequence(depth));
      choice.parts.push_back(std::move(sequence));
    } while (skip("|"));
    return choice;
  }

  Result<Expression> parse_sequence(int depth) {
    Expression sequence;
    if (depth == 0) sequence.at_start = skip("^");
    while (!is_at_end_of_alternative()) {
      if (depth == 0 && skip("$")) {
        if (!is_at_end_of_alternative()) return fail(ErrorCode::kUnsupported, "$ before the end");
        sequence.at_end = true;
        break;
      }
      T9_TRY(atom, parse_atom(depth));
      T9_TRY(repeated, parse_quantifier(std::move(atom)));
      sequence.parts.push_back(std::move(repeated));
    }
    return sequence;
  }

  Result<Expression> parse_atom(int depth) {
    if (at("^") || at("$")) return fail(ErrorCode::kUnsupported, "an anchor inside");
    if (at("*") || at("+") || at("?")) return fail(ErrorCode::kInvalidInput, "a quantifier without anything before it");
    if (skip("(")) return parse_group(depth);
    if (skip("[")) return parse_class();
    if (skip(".")) return Expression{.kind = Expression::Kind::kCharacter, .characters = complement(kLineEnds)};
    Expression atom{.kind = Expression::Kind::kCharacter};
    if (skip("\\")) {
      T9_TRY(ranges, parse_escape());
      atom.characters = std::move(ranges);
      return atom;
    }
    const char32_t c = decode_utf8(text_, pos_);
    atom.characters = {{c, c}};
    return atom;
  }

  Result<Expression> parse_group(int depth) {
    if (skip("?:")) {
    } else if (at("?<=") || at("?<!") || at("?=") || at("?!")) {
      return fail(ErrorCode::kUnsupported, "look-around");
    } else if (skip("?<")) {
      pos_ = std::min(text_.find('>', pos_), text_.size() - 1) + 1;
    } else if (at("?")) {
      return fail(ErrorCode::kUnsupported, "flags");
    }
    T9_TRY(choice, parse_choice(depth + 1));
    if (!skip(")")) return fail(ErrorCode::kInvalidInput, "an unmatched (");
    return choice;
  }

  // Behind the opening bracket.
  Result<Expression> parse_class() {
    const bool is_negated = skip("^");
    Ranges ranges;
    while (!skip("]")) {
      T9_TRY(first, parse_class_member());
      const bool is_single = first.size() == 1 && first[0].first == first[0].last;
      if (is_single && at("-") && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
        ++pos_;
        T9_TRY(last, parse_class_member());
        if (last.size() != 1 || last[0].first != last[0].last || last[0].first < first[0].first) {
          return fail(ErrorCode::kInvalidInput, "a range in a class that is none");
        }
        first[0].last = last[0].first;
      }
      ranges.insert(ranges.end(), first.begin(), first.end());
    }
    // Twice the complement: sorted and without overlaps.
    ranges = complement(std::move(ranges));
    return Expression{.kind = Expression::Kind::kCharacter,
                      .characters = is_negated ? std::move(ranges) : complement(std::move(ranges))};
  }

  Result<Ranges> parse_class_member() {
    if (pos_ == text_.size()) return fail(ErrorCode::kInvalidInput, "an unmatched [");
    if (skip("\\")) {
      if (skip("b")) return Ranges{{'\b', '\b'}};
      return parse_escape();
    }
    const char32_t c = decode_utf8(text_, pos_);
    return Ranges{{c, c}};
  }

  // Behind the backslash.
  Result<Ranges> parse_escape() {
    if (pos_ == text_.size()) return fail(ErrorCode::kInvalidInput, "a backslash at the end");
    const char32_t c = decode_utf8(text_, pos_);
    const auto single = [](char32_t code) { return Ranges{{code, code}}; };
    switch (c) {
      case 'd':
        return kDigits;
      case 'D':
        return complement(kDigits);
      case 'w':
        return kWordCharacters;
      case 'W':
        return complement(kWordCharacters);
      case 's':
        return kSpaces;
      case 'S':
        return complement(kSpaces);
      case 'n':
        return single('\n');
      case 'r':
        return single('\r');
      case 't':
        return single('\t');
      case 'f':
        return single('\f');
      case 'v':
        return single('\v');
      case '0':
        return single(0);
      case 'x':
        return parse_hex(2);
      case 'u':
        return skip("{") ? parse_braced_hex() : parse_hex(4);
      default:
        break;
    }
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9');
    if (is_letter) return fail(ErrorCode::kUnsupported, fmt::format("\\{}", static_cast<char>(c)));
    return single(c);
  }

  Result<Ranges> parse_hex(size_t n) {
    char32_t value = 0;
    for (size_t i = 0; i < n; ++i) {
      const std::optional<char32_t> digit = skip_hex_digit();
      if (!digit) return fail(ErrorCode::kInvalidInput, "an escape without its hexadecimal digits");
      value = value << 4 | *digit;
    }
    return Ranges{{value, value}};
  }
  Result<Ranges> parse_braced_hex() {
    char32_t value = 0;
    while (const std::optional<char32_t> digit = skip_hex_digit())
      value = std::min<char32_t>(value << 4 | *digit, 1 << 24);
    if (!skip("}") || value > kLastCodePoint) return fail(ErrorCode::kInvalidInput, "an escape that is no code point");
    return Ranges{{value, value}};
  }
  std::optional<char32_t> skip_hex_digit() {
    constexpr std::string_view kHex = "0123456789abcdef";
    if (pos_ == text_.size()) return std::nullopt;
    const char c = text_[pos_];
    const size_t digit = kHex.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
    if (digit == std::string_view::npos) return std::nullopt;
    ++pos_;
    return static_cast<char32_t>(digit);
  }

  Result<Expression> parse_quantifier(Expression atom) {
    std::optional<Limits> times;
    if (skip("?")) {
      times = Limits{0, 1};
    } else if (skip("*")) {
      times = Limits{};
    } else if (skip("+")) {
      times = Limits{1, Limits::kUnlimited};
    } else if (at("{")) {
      T9_TRY(braced, parse_braced_times());
      times = braced;
    }
    if (!times) return atom;
    skip("?");  // which match is found first does not matter
    Expression repeat{.kind = Expression::Kind::kRepeat, .times = *times};
    repeat.parts.push_back(std::move(atom));
    return repeat;
  }

  Result<Limits> parse_braced_times() {
    skip("{");
    Limits times;
    const std::optional<uint32_t> min = skip_number();
    if (!min) return fail(ErrorCode::kInvalidInput, "a { that begins no quantifier");
    times = {*min, *min};
    if (skip(",")) times.max = skip_number().value_or(Limits::kUnlimited);
    if (!skip("}") || times.max < times.min) return fail(ErrorCode::kInvalidInput, "a { that begins no quantifier");
    if (times.min > kMaxRepeats || (times.max != Limits::kUnlimited && times.max > kMaxRepeats)) {
      return fail(ErrorCode::kUnsupported, fmt::format("more than {} repeats", kMaxRepeats));
    }
    return times;
  }
  std::optional<uint32_t> skip_number() {
    const size_t begin = pos_;
    uint32_t value = 0;
    for (; pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '9'; ++pos_) {
      value = std::min<uint32_t>(value * 10 + static_cast<uint32_t>(text_[pos_] - '0'), 1'000'000);
    }
    return pos_ > begin ? std::optional(value) : std::nullopt;
  }

  std::string_view text_;
  size_t pos_ = 0;
};

class PatternWriter {
 public:
  PatternWriter(AutomatonBuilder& builder, Notation& notation, Counting counting)
      : builder_(builder), notation_(notation), counting_(counting) {}

  NodeId write_whole(const Expression& choice, NodeId from) {
    const NodeId to = builder_.add_node();
    for (const Expression& sequence : choice.parts) {
      NodeId begin = builder_.add_node();
      builder_.add_free(from, begin);
      if (!sequence.at_start) notation_.add_text(begin, counting_);
      const NodeId matched = write(sequence, fresh_behind(begin));
      if (!sequence.at_end) {
        const NodeId rest = fresh_behind(matched);
        notation_.add_text(rest, counting_);
        builder_.add_free(rest, to);
      } else {
        builder_.add_free(matched, to);
      }
    }
    return to;
  }

 private:
  NodeId fresh_behind(NodeId node) {
    const NodeId next = builder_.add_node();
    builder_.add_free(node, next);
    return next;
  }

  NodeId write(const Expression& expression, NodeId from) {
    if (builder_.is_full()) return from;  // the builder refuses the whole
    switch (expression.kind) {
      case Expression::Kind::kCharacter: {
        const NodeId to = builder_.add_node();
        for (const Range& range : expression.characters) {
          notation_.add_string_characters(from, range.first, range.last, to, counting_);
        }
        return to;
      }
      case Expression::Kind::kSequence: {
        for (const Expression& part : expression.parts) from = write(part, from);
        return from;
      }
      case Expression::Kind::kChoice: {
        const NodeId to = builder_.add_node();
        for (const Expression& part : expression.parts) builder_.add_free(write(part, fresh_behind(from)), to);
        return to;
      }
      case Expression::Kind::kRepeat:
        return write_repeat(expression, from);
    }
    return from;
  }

  NodeId write_repeat(const Expression& repeat, NodeId from) {
    const Expression& part = repeat.parts.front();
    for (uint32_t i = 0; i < repeat.times.min && !builder_.is_full(); ++i) from = write(part, from);
    if (repeat.times.max == Limits::kUnlimited) {
      const NodeId loop = fresh_behind(from);
      builder_.add_free(write(part, fresh_behind(loop)), loop);
      return fresh_behind(loop);
    }
    const NodeId to = builder_.add_node();
    builder_.add_free(from, to);
    for (uint32_t i = repeat.times.min; i < repeat.times.max && !builder_.is_full(); ++i) {
      from = write(part, fresh_behind(from));
      builder_.add_free(from, to);
    }
    return to;
  }

  AutomatonBuilder& builder_;
  Notation& notation_;
  Counting counting_;
};

}  // namespace

Result<NodeId> add_pattern(AutomatonBuilder& builder, Notation& notation, NodeId from, std::string_view pattern,
                           Counting counting) {
  T9_TRY(expression, PatternParser(pattern).parse());
  return PatternWriter(builder, notation, counting).write_whole(expression, from);
}

}  // namespace tempo9::grammar
