// The GGUF metadata that tokenizers read, by name.
#pragma once

#include <string_view>

namespace tempo9::tokenizer {

inline constexpr std::string_view kModelKey = "tokenizer.ggml.model";
inline constexpr std::string_view kPreKey = "tokenizer.ggml.pre";
inline constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
inline constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
inline constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
inline constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
inline constexpr std::string_view kBosKey = "tokenizer.ggml.bos_token_id";
inline constexpr std::string_view kEosKey = "tokenizer.ggml.eos_token_id";
inline constexpr std::string_view kEosListKey = "tokenizer.ggml.eos_token_ids";
inline constexpr std::string_view kEotKey = "tokenizer.ggml.eot_token_id";
inline constexpr std::string_view kEomKey = "tokenizer.ggml.eom_token_id";
inline constexpr std::string_view kFimPadKey = "tokenizer.ggml.fim_pad_token_id";
inline constexpr std::string_view kFimRepositoryKey = "tokenizer.ggml.fim_rep_token_id";
inline constexpr std::string_view kFimSeparatorKey = "tokenizer.ggml.fim_sep_token_id";
inline constexpr std::string_view kUnknownKey = "tokenizer.ggml.unknown_token_id";
inline constexpr std::string_view kAddBosKey = "tokenizer.ggml.add_bos_token";
inline constexpr std::string_view kAddEosKey = "tokenizer.ggml.add_eos_token";
inline constexpr std::string_view kAddSpacePrefixKey = "tokenizer.ggml.add_space_prefix";
inline constexpr std::string_view kRemoveExtraWhitespacesKey = "tokenizer.ggml.remove_extra_whitespaces";
inline constexpr std::string_view kSuppressKey = "tokenizer.ggml.suppress_tokens";

}  // namespace tempo9::tokenizer
