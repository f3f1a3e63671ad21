// The part of a tokenizer that differs between kinds: ordinary text to ids.
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "gguf/file.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_sink.h"
#include "tokenizer/vocabulary.h"

namespace tempo9::tokenizer {

// Immutable; any thread may encode.
class FragmentEncoder {
 public:
  virtual ~FragmentEncoder() = default;

  // Sends the ids of `fragment`, a stretch of text between special tokens, to `sink`. Returns early when the sink says
  // so. Errors: kInvalidInput when the vocabulary has no token for some byte of it.
  // REQUIRES: well-formed UTF-8, shorter than 1 GiB.
  virtual Result<void> encode(std::string_view fragment, bool normalize, TokenSink& sink) const = 0;
};

// Byte-level BPE by merge rank (spec tokenizers 2.1). `vocabulary` must outlive the encoder; what was ignored in the
// merges is added to `warnings`.
Result<std::unique_ptr<FragmentEncoder>> create_byte_bpe(const gguf::Metadata& metadata, const Vocabulary& vocabulary,
                                                         const PreTokenizer& pre, std::vector<std::string>& warnings);

// SentencePiece BPE by score (spec tokenizers 2.2). `vocabulary` must outlive the encoder.
Result<std::unique_ptr<FragmentEncoder>> create_sentencepiece_bpe(const gguf::Metadata& metadata,
                                                                  const Vocabulary& vocabulary);

// Gemma 4's BPE by merge rank (spec tokenizers 2.3). `vocabulary` must outlive the encoder; what was ignored in the
// merges is added to `warnings`.
Result<std::unique_ptr<FragmentEncoder>> create_gemma4_bpe(const gguf::Metadata& metadata, const Vocabulary& vocabulary,
                                                           std::vector<std::string>& warnings);

}  // namespace tempo9::tokenizer
