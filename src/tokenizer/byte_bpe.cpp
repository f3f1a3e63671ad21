// Byte-level BPE by merge rank.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/fragment_encoder.h"
#include "tokenizer/merger.h"
#include "tokenizer/merges.h"
#include "tokenizer/nfc.h"
#include "tokenizer/pair_table.h"
#include "tokenizer/text_table.h"

namespace tempo9::tokenizer {
namespace {

class ByteBpe final : public FragmentEncoder {
 public:
  ByteBpe(const PreTokenizer& pre, std::array<int32_t, 256> byte_tokens, PairTable merges, TextTable words)
      : pre_(pre),
        byte_tokens_(byte_tokens),
        lacks_bytes_(std::ranges::count(byte_tokens, -1) > 0),
        merges_(std::move(merges)),
        words_(std::move(words)) {}

  Result<void> encode(std::string_view fragment, bool normalize, TokenSink& sink) const override {
    std::string normalized;
    if (normalize && pre_.nfc && !is_surely_nfc(fragment)) {
      normalized = to_nfc(fragment);
      fragment = normalized;
    }
    std::string replaced;
    if (lacks_bytes_ && !std::ranges::all_of(fragment, [&](char c) { return token_of(c) >= 0; })) {
      replaced = replace_unwritable(fragment);
      fragment = replaced;
    }
    Buffers buffers;
    Result<void> result;
    for_each_piece(fragment, pre_.stages, [&](std::string_view piece) {
      result = encode_piece(piece, buffers, sink);
      return result && sink.advance(piece.size());
    });
    return result;
  }

 private:
  struct Buffers {
    std::vector<Symbol> row;
    Merger merger;
  };

  // The token of a byte, or the unknown token, or -1.
  int32_t token_of(char byte) const { return byte_tokens_[static_cast<uint8_t>(byte)]; }

  // Characters with a byte that has no token become U+FFFD, as ill-formed input does. Nothing vanishes unseen, and no
  // such character makes a request fail.
  std::string replace_unwritable(std::string_view text) const {
    std::string out;
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      decode_utf8(text, pos);
      const std::string_view character = text.substr(begin, pos - begin);
      if (std::ranges::all_of(character, [&](char c) { return token_of(c) >= 0; })) {
        out += character;
      } else {
        append_utf8(out, kReplacementCharacter);
      }
    }
    return out;
  }

  Result<void> encode_piece(std::string_view piece, Buffers& buffers, TokenSink& sink) const {
    if (pre_.ignore_merges) {
      const int32_t word = words_.find(piece);
      if (word != TextTable::kNone) {
        sink.push(word);
        return {};
      }
    }
    buffers.row.resize(piece.size());
    for (size_t i = 0; i < piece.size(); ++i) {
      const int32_t id = token_of(piece[i]);
      if (id < 0) {
        return fail(ErrorCode::kInvalidInput,
                    fmt::format("the vocabulary has no token for byte 0x{:02X}", static_cast<uint8_t>(piece[i])));
      }
      buffers.row[i] = {id, static_cast<uint32_t>(i)};
    }
    const auto end = static_cast<uint32_t>(piece.size());
    if (!buffers.merger.merge(buffers.row, end, RankedMerges{merges_}, [&] { return sink.keep_going(); })) return {};
    for (const Symbol& symbol : buffers.row) sink.push(symbol.id);
    return {};
  }

  const PreTokenizer& pre_;
  std::array<int32_t, 256> byte_tokens_;  // -1: none
  bool lacks_bytes_;
  PairTable merges_;
  TextTable words_;  // by bytes; only with pre_.ignore_merges
};

TextTable index_words(const Vocabulary& vocabulary) {
  TextTable words(static_cast<size_t>(vocabulary.size()));
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.is_mergeable(id)) continue;
    if (const std::optional<std::string> bytes = alphabet_to_bytes(vocabulary.text(id))) words.insert(*bytes, id);
  }
  return words;
}

// Of each byte; where it has none, the unknown token, or -1.
std::array<int32_t, 256> find_byte_tokens(const Vocabulary& vocabulary, const TextTable& ids,
                                          std::vector<std::string>& warnings) {
  const int32_t fallback = vocabulary.unknown().value_or(-1);
  std::array<int32_t, 256> byte_tokens;
  int n_missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_to_character(static_cast<uint8_t>(byte)));
    const int32_t id = ids.find(text);
    if (id == TextTable::kNone) ++n_missing;
    byte_tokens[static_cast<size_t>(byte)] = id == TextTable::kNone ? fallback : id;
  }
  if (n_missing > 0) warnings.push_back(fmt::format("the vocabulary has no token for {} of the 256 bytes", n_missing));
  return byte_tokens;
}

}  // namespace

Result<std::unique_ptr<FragmentEncoder>> create_byte_bpe(const gguf::Metadata& metadata, const Vocabulary& vocabulary,
                                                         const PreTokenizer& pre, std::vector<std::string>& warnings) {
  const TextTable ids = index_mergeable_texts(vocabulary);
  T9_TRY(merges, read_merges(metadata, ids, warnings));
  return std::make_unique<ByteBpe>(pre, find_byte_tokens(vocabulary, ids, warnings), std::move(merges),
                                   pre.ignore_merges ? index_words(vocabulary) : TextTable(0));
}

}  // namespace tempo9::tokenizer
