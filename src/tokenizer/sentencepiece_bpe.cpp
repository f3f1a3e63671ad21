// SentencePiece BPE: the adjacent pair whose joined text is the token with the highest score merges first.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/byte_fallback.h"
#include "tokenizer/fragment_encoder.h"
#include "tokenizer/keys.h"
#include "tokenizer/merger.h"
#include "tokenizer/pair_table.h"
#include "tokenizer/space_mark.h"
#include "tokenizer/split_points.h"
#include "tokenizer/text_table.h"

namespace tempo9::tokenizer {
namespace {

// Leading and trailing spaces dropped, inner runs of them made one.
std::string remove_extra_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

class SentencePieceBpe final : public FragmentEncoder {
 public:
  SentencePieceBpe(const Vocabulary& vocabulary, std::vector<uint32_t> ranks, bool removes_extra_spaces)
      : vocabulary_(vocabulary),
        ranks_(std::move(ranks)),
        removes_extra_spaces_(removes_extra_spaces),
        ids_(static_cast<size_t>(vocabulary.size())) {
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (!vocabulary.is_mergeable(id)) continue;
      ids_.insert(vocabulary.text(id), id);
      split_points_.add_token(vocabulary.text(id));
    }
  }

  Result<void> encode(std::string_view fragment, bool, TokenSink& sink) const override {
    const std::string text = prepare(fragment);
    Buffers buffers;
    Result<void> result;
    split_points_.for_each_part(text, [&](std::string_view part) {
      result = encode_part(part, buffers, sink);
      return result && sink.advance(part.size());
    });
    return result;
  }

 private:
  struct Buffers {
    std::vector<Symbol> row;
    Merger merger;
    // Where a text that merged into an unused token was joined: such tokens are taken apart again. Key: begin and end.
    std::unordered_map<uint64_t, uint32_t> unused_joints;
    std::vector<std::pair<uint32_t, uint32_t>> stack;
  };

  static uint64_t span_key(uint32_t begin, uint32_t end) { return uint64_t{begin} << 32 | end; }

  // Rules for Merger.
  struct ScoredTexts {
    const SentencePieceBpe& self;
    std::string_view text;
    Buffers& buffers;

    Merge find(const Symbol& left, const Symbol&, uint32_t end) const {
      const int32_t id = self.ids_.find(text.substr(left.begin, end - left.begin));
      return id == TextTable::kNone ? Merge{} : Merge{self.ranks_[static_cast<size_t>(id)], id};
    }
    void merged(const Symbol& left, const Symbol& right, uint32_t end, int32_t result) const {
      if (self.vocabulary_.type(result) != TokenType::kUnused) return;
      buffers.unused_joints[span_key(left.begin, end)] = right.begin;
    }
  };

  std::string prepare(std::string_view fragment) const {
    std::string cleaned;
    if (removes_extra_spaces_) {
      cleaned = remove_extra_spaces(fragment);
      fragment = cleaned;
    }
    std::string text;
    if (fragment.empty()) return text;
    text.reserve(fragment.size() + fragment.size() / 2);
    if (vocabulary_.adds_space_prefix()) text += kSpaceMark;
    append_marked(text, fragment);
    return text;
  }

  Result<void> encode_part(std::string_view text, Buffers& buffers, TokenSink& sink) const {
    std::vector<Symbol>& row = buffers.row;
    row.clear();
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      decode_utf8(text, pos);
      row.push_back({ids_.find(text.substr(begin, pos - begin)), static_cast<uint32_t>(begin)});
    }
    buffers.unused_joints.clear();
    const auto end = static_cast<uint32_t>(text.size());
    if (!buffers.merger.merge(row, end, ScoredTexts{*this, text, buffers}, [&] { return sink.keep_going(); }))
      return {};
    for (size_t i = 0; i < row.size(); ++i) {
      const uint32_t symbol_end = i + 1 < row.size() ? row[i + 1].begin : end;
      T9_TRY_VOID(emit(text, row[i].begin, symbol_end, row[i].id, buffers, sink));
    }
    return {};
  }

  Result<void> emit(std::string_view text, uint32_t begin, uint32_t end, int32_t id, Buffers& buffers,
                    TokenSink& sink) const {
    if (is_emitted(id)) {
      sink.push(id);
      return {};
    }
    buffers.stack.assign({{begin, end}});
    while (!buffers.stack.empty()) {
      const auto [from, to] = buffers.stack.back();
      buffers.stack.pop_back();
      const std::string_view part = text.substr(from, to - from);
      const int32_t part_id = ids_.find(part);
      const auto joint = buffers.unused_joints.find(span_key(from, to));
      if (is_emitted(part_id)) {
        sink.push(part_id);
      } else if (joint != buffers.unused_joints.end()) {
        buffers.stack.push_back({joint->second, to});
        buffers.stack.push_back({from, joint->second});
      } else {
        T9_TRY_VOID(push_as_bytes(vocabulary_, part, sink));
      }
    }
    return {};
  }

  bool is_emitted(int32_t id) const { return id != TextTable::kNone && vocabulary_.type(id) != TokenType::kUnused; }

  const Vocabulary& vocabulary_;
  std::vector<uint32_t> ranks_;  // by token id; equal scores have equal ranks
  bool removes_extra_spaces_;
  TextTable ids_;
  SplitPoints split_points_;
};

// Scores as ranks: 0 for the highest.
std::vector<uint32_t> rank_scores(std::span<const double> scores) {
  std::vector<double> descending(scores.begin(), scores.end());
  std::ranges::sort(descending, std::greater<>());
  const auto [first, last] = std::ranges::unique(descending);
  descending.erase(first, last);
  std::vector<uint32_t> ranks;
  ranks.reserve(scores.size());
  for (const double score : scores) {
    const auto place = std::ranges::lower_bound(descending, score, std::greater<>());
    ranks.push_back(static_cast<uint32_t>(place - descending.begin()));
  }
  return ranks;
}

}  // namespace

Result<std::unique_ptr<FragmentEncoder>> create_sentencepiece_bpe(const gguf::Metadata& metadata,
                                                                  const Vocabulary& vocabulary) {
  T9_TRY(scores, metadata.read_floats(kScoresKey));
  if (static_cast<int64_t>(scores.size()) != vocabulary.size()) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("metadata {}: {} scores for {} tokens", kScoresKey, scores.size(), vocabulary.size()));
  }
  if (std::ranges::any_of(scores, [](double score) { return std::isnan(score); })) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: a score is not a number", kScoresKey));
  }
  T9_TRY(removes_extra_spaces, metadata.find_bool(kRemoveExtraWhitespacesKey));
  return std::make_unique<SentencePieceBpe>(vocabulary, rank_scores(scores), removes_extra_spaces.value_or(false));
}

}  // namespace tempo9::tokenizer
