#include "tokenizer/special_names.h"

#include <algorithm>
#include <array>

namespace tempo9::tokenizer {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kEndOfMessage = "<|end|>";
constexpr std::string_view kGemmaToolResponse = "<|tool_response>";
constexpr std::string_view kEndOfSequence = "</s>";

constexpr auto kEndOfGeneration = std::to_array<std::string_view>({
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    "<|end_of_text|>",
    "<turn|>",
    "<|tool_response>",
    "<end_of_utterance>",
    "[e~[",
    "<｜end▁of▁sentence｜>",
});

// Padding, repository and file separators of code models: a model that writes one has begun another document.
constexpr auto kFimEnds = std::to_array<std::string_view>({
    "<|fim_pad|>",
    "<fim-pad>",
    "<fim_pad>",
    "<PAD>",
    "[PAD]",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<fim-repo>",
    "<REPO>",
    "<reponame>",
    "<|file_sep|>",
});

constexpr auto kFimMarkers = std::to_array<std::string_view>({
    "<|fim_prefix|>",  "<fim-prefix>",  "<fim_prefix>",    "<｜fim▁begin｜>", "<PRE>",           "▁<PRE>",
    "<|code_prefix|>", "<|prefix|>",    "<|fim_suffix|>",  "<fim-suffix>",    "<fim_suffix>",    "<｜fim▁hole｜>",
    "<SUF>",           "▁<SUF>",        "<|code_suffix|>", "<|suffix|>",      "<|fim_middle|>",  "<fim-middle>",
    "<fim_middle>",    "<｜fim▁end｜>", "<MID>",           "▁<MID>",          "<|code_middle|>", "<|middle|>",
});

// gpt-oss: rendered, because the parser of its channels reads them.
constexpr auto kHarmonyMarkers =
    std::to_array<std::string_view>({"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"});

constexpr auto kStructural = std::to_array<std::string_view>({
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|constrain|>",
    "<|end|>",  // gpt-oss
    "<|channel>",
    "<channel|>",
    "<|tool_call>",
    "<tool_call|>",
    "<|tool_response>",  // Gemma 4
    "<tool_response|>",
    "<|\"|>",
});

}  // namespace

int32_t NamedTokens::find(std::string_view name) const {
  const int32_t id = ids_.find(name);
  if (id == TextTable::kNone) return id;
  const bool is_ordinary = types_[static_cast<size_t>(id)] == TokenType::kNormal && is_made_by_merge(name);
  return is_ordinary ? TextTable::kNone : id;
}

bool NamedTokens::is_made_by_merge(std::string_view text) const {
  return std::ranges::any_of(merges_, [&](std::string_view merge) {
    if (merge.size() != text.size() + 1) return false;
    const size_t space = merge.find(' ', 1);
    return space != std::string_view::npos && text.starts_with(merge.substr(0, space)) &&
           text.ends_with(merge.substr(space + 1));
  });
}

void NamedTokens::set_type(Names names, TokenType type) {
  for (const std::string_view name : names) {
    const int32_t id = find(name);
    if (id != TextTable::kNone) types_[static_cast<size_t>(id)] = type;
  }
}

bool NamedTokens::is_harmony() const { return has("<|return|>") && has("<|call|>"); }

bool NamedTokens::ends_turns_by_flush() const { return has("<|flush|>") && (has("<|call|>") || has("<|calls|>")); }

void NamedTokens::correct_types() {
  for (const Names names : {Names(kEndOfGeneration), Names(kFimEnds), Names(kFimMarkers)}) {
    set_type(names, TokenType::kControl);
  }
  set_type(kHarmonyMarkers, TokenType::kUserDefined);
  if (is_harmony()) set_type({&kEndOfMessage, 1}, TokenType::kUserDefined);
  // Gemma 4 has </s> as HTML.
  if (has(kGemmaToolResponse)) set_type({&kEndOfSequence, 1}, TokenType::kNormal);
}

std::vector<int32_t> NamedTokens::ends_of_generation() const {
  std::vector<int32_t> ends;
  for (const Names names : {Names(kEndOfGeneration), Names(kFimEnds)}) {
    for (const std::string_view name : names) {
      if (has(name)) ends.push_back(find(name));
    }
  }
  return ends;
}

std::vector<int32_t> NamedTokens::exceptions() const {
  std::vector<int32_t> exceptions;
  if ((is_harmony() || ends_turns_by_flush()) && has(kEndOfMessage)) exceptions.push_back(find(kEndOfMessage));
  if (has(kGemmaToolResponse) && has(kEndOfSequence)) exceptions.push_back(find(kEndOfSequence));
  return exceptions;
}

bool is_structural(std::string_view text) { return std::ranges::find(kStructural, text) != kStructural.end(); }

}  // namespace tempo9::tokenizer
