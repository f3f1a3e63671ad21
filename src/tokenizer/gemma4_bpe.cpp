// Gemma 4's BPE: merges by rank, as byte-level BPE, on characters with marks for spaces, as SentencePiece.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/byte_fallback.h"
#include "tokenizer/fragment_encoder.h"
#include "tokenizer/merger.h"
#include "tokenizer/merges.h"
#include "tokenizer/space_mark.h"
#include "tokenizer/split_points.h"
#include "tokenizer/text_table.h"

namespace tempo9::tokenizer {
namespace {

class Gemma4Bpe final : public FragmentEncoder {
 public:
  Gemma4Bpe(const Vocabulary& vocabulary, TextTable ids, PairTable merges, std::vector<int32_t> newline_runs)
      : vocabulary_(vocabulary),
        ids_(std::move(ids)),
        merges_(std::move(merges)),
        newline_runs_(std::move(newline_runs)) {
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.is_mergeable(id)) split_points_.add_token(vocabulary.text(id));
    }
  }

  Result<void> encode(std::string_view fragment, bool, TokenSink& sink) const override {
    std::string text;
    text.reserve(fragment.size() + fragment.size() / 2);
    append_marked(text, fragment);
    if (newline_runs_.empty()) return encode_stretch(text, sink);
    return encode_between_newline_runs(text, sink);
  }

 private:
  // The token of exactly `n` newlines that no merge makes, or TextTable::kNone.
  int32_t newline_run(size_t n) const { return n < newline_runs_.size() ? newline_runs_[n] : TextTable::kNone; }

  Result<void> encode_between_newline_runs(std::string_view text, TokenSink& sink) const {
    size_t begin = 0;
    for (size_t pos = text.find('\n'); pos != std::string_view::npos; pos = text.find('\n', pos)) {
      const size_t end = std::min(text.find_first_not_of('\n', pos), text.size());
      if (const int32_t id = newline_run(end - pos); id != TextTable::kNone) {
        T9_TRY_VOID(encode_stretch(text.substr(begin, pos - begin), sink));
        sink.push(id);
        begin = end;
      }
      pos = end;
    }
    return encode_stretch(text.substr(begin), sink);
  }

  Result<void> encode_stretch(std::string_view text, TokenSink& sink) const {
    std::vector<Symbol> row;
    Merger merger;
    Result<void> result;
    split_points_.for_each_part(text, [&](std::string_view part) {
      result = encode_part(part, row, merger, sink);
      return result && sink.advance(part.size());
    });
    return result;
  }

  Result<void> encode_part(std::string_view part, std::vector<Symbol>& row, Merger& merger, TokenSink& sink) const {
    row.clear();
    for (size_t pos = 0; pos < part.size();) {
      const size_t begin = pos;
      decode_utf8(part, pos);
      row.push_back({ids_.find(part.substr(begin, pos - begin)), static_cast<uint32_t>(begin)});
    }
    const auto end = static_cast<uint32_t>(part.size());
    if (!merger.merge(row, end, RankedMerges{merges_}, [&] { return sink.keep_going(); })) return {};
    for (size_t i = 0; i < row.size(); ++i) {
      const uint32_t symbol_end = i + 1 < row.size() ? row[i + 1].begin : end;
      if (row[i].id != TextTable::kNone) {
        sink.push(row[i].id);
      } else {
        T9_TRY_VOID(push_as_bytes(vocabulary_, part.substr(row[i].begin, symbol_end - row[i].begin), sink));
      }
    }
    return {};
  }

  const Vocabulary& vocabulary_;
  TextTable ids_;
  PairTable merges_;
  SplitPoints split_points_;
  std::vector<int32_t> newline_runs_;  // by length; empty when merges make all of them
};

// Tokens of two newlines or more that no merge makes: a run of exactly so many is that token (spec tokenizers 2.3).
std::vector<int32_t> find_newline_runs(const Vocabulary& vocabulary, const PairTable& merges) {
  std::set<int32_t> runs;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    const bool is_run = text.size() >= 2 && text.find_first_not_of('\n') == std::string_view::npos;
    if (is_run && vocabulary.is_mergeable(id)) runs.insert(id);
  }
  merges.for_each([&](const Merge& merge) { runs.erase(merge.result); });
  std::vector<int32_t> by_length;
  for (const int32_t id : runs) {
    const size_t n = vocabulary.text(id).size();
    if (by_length.size() <= n) by_length.resize(n + 1, TextTable::kNone);
    by_length[n] = id;
  }
  return by_length;
}

}  // namespace

Result<std::unique_ptr<FragmentEncoder>> create_gemma4_bpe(const gguf::Metadata& metadata, const Vocabulary& vocabulary,
                                                           std::vector<std::string>& warnings) {
  TextTable ids = index_mergeable_texts(vocabulary);
  T9_TRY(merges, read_merges(metadata, ids, warnings));
  std::vector<int32_t> newline_runs = find_newline_runs(vocabulary, merges);
  return std::make_unique<Gemma4Bpe>(vocabulary, std::move(ids), std::move(merges), std::move(newline_runs));
}

}  // namespace tempo9::tokenizer
