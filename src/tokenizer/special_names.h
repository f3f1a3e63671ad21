// Tokens that are known by their text, whatever type the file gives them (spec tokenizers 3.1, 3.4, 3.5).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text_table.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::tokenizer {

// Finds tokens by the names of this file.
class NamedTokens {
 public:
  // All three must outlive the object. `ids` finds every token by its text; `merges` are the file's, if it has any.
  NamedTokens(const TextTable& ids, std::span<TokenType> types, std::span<const std::string> merges)
      : ids_(ids), types_(types), merges_(merges) {}

  // Sets the types that files get wrong.
  void correct_types();
  // Ids that end a generation by name alone.
  std::vector<int32_t> ends_of_generation() const;
  // Tokens that end a generation in most families and only a message, or nothing, in this one: they are no end even
  // where a metadata key names them.
  std::vector<int32_t> exceptions() const;

 private:
  // TextTable::kNone when the vocabulary lacks it, or has it as ordinary text: as a normal token that a merge makes.
  // (Qwen's "</s>" is a piece of HTML.)
  int32_t find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != TextTable::kNone; }
  bool is_made_by_merge(std::string_view text) const;
  void set_type(std::span<const std::string_view> names, TokenType type);
  bool is_harmony() const;
  bool ends_turns_by_flush() const;

  const TextTable& ids_;
  std::span<TokenType> types_;
  std::span<const std::string> merges_;
};

// A user-defined token that delimits messages, channels or tool calls. Users must not be able to write it.
bool is_structural(std::string_view text);

}  // namespace tempo9::tokenizer
