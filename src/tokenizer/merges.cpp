#include "tokenizer/merges.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "tokenizer/keys.h"

namespace tempo9::tokenizer {
namespace {

struct Pair {
  int32_t left;
  int32_t right;
  int32_t result;
};

// Nothing where one of the three texts is no token.
std::optional<Pair> resolve(std::string_view merge, const TextTable& ids, std::string& joined) {
  // The first symbol may itself begin with a space, in vocabularies that do not write bytes in the alphabet.
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view left = merge.substr(0, space);
  const std::string_view right = merge.substr(space + 1);
  joined.assign(left).append(right);
  const Pair pair = {ids.find(left), ids.find(right), ids.find(joined)};
  const bool is_whole =
      pair.left != TextTable::kNone && pair.right != TextTable::kNone && pair.result != TextTable::kNone;
  return is_whole ? std::optional(pair) : std::nullopt;
}

}  // namespace

TextTable index_mergeable_texts(const Vocabulary& vocabulary) {
  TextTable ids(static_cast<size_t>(vocabulary.size()));
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_mergeable(id)) ids.insert(vocabulary.text(id), id);
  }
  return ids;
}

Result<PairTable> read_merges(const gguf::Metadata& metadata, const TextTable& ids,
                              std::vector<std::string>& warnings) {
  T9_TRY(merges, metadata.read_strings(kMergesKey));
  if (merges.size() >= Merge::kNoRank) {
    return fail(ErrorCode::kInvalidInput, fmt::format("metadata {}: {} are too many", kMergesKey, merges.size()));
  }
  PairTable table(merges.size());
  size_t n_unusable = 0;
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    if (const std::optional<Pair> pair = resolve(merges[rank], ids, joined)) {
      table.insert(static_cast<uint32_t>(pair->left), static_cast<uint32_t>(pair->right),
                   {static_cast<uint32_t>(rank), pair->result});
    } else {
      ++n_unusable;
    }
  }
  if (n_unusable > 0) {
    warnings.push_back(fmt::format("metadata {}: {} of {} merges name texts that are no tokens: ignored", kMergesKey,
                                   n_unusable, merges.size()));
  }
  return table;
}

}  // namespace tempo9::tokenizer
