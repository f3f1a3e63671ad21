// tokenizer.ggml.merges: which pairs of tokens merge, in what order, into what. For the kinds of BPE that merge by
// rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "tokenizer/merger.h"
#include "tokenizer/pair_table.h"
#include "tokenizer/text_table.h"
#include "tokenizer/vocabulary.h"

namespace tempo9::tokenizer {

// Rules for Merger: pairs of token ids. Everything happens on ids, so no text is built while merging; a symbol that is
// no token merges with nothing.
struct RankedMerges {
  const PairTable& table;

  Merge find(const Symbol& left, const Symbol& right, uint32_t) const {
    return table.find(static_cast<uint32_t>(left.id), static_cast<uint32_t>(right.id));
  }
  void merged(const Symbol&, const Symbol&, uint32_t, int32_t) const {}
};

// The ids of what ordinary text may become.
TextTable index_mergeable_texts(const Vocabulary& vocabulary);

// Merges of texts that are no tokens in `ids` are left out, with one warning.
// Errors: kNotFound when the key is absent, kInvalidInput naming it.
Result<PairTable> read_merges(const gguf::Metadata& metadata, const TextTable& ids, std::vector<std::string>& warnings);

}  // namespace tempo9::tokenizer
