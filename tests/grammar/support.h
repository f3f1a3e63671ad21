// Compiling grammars for tests, and an independent validator of JSON Schema to hold them against.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/matcher.h"

namespace tempo9::grammar::testing {

using Json = nlohmann::ordered_json;

// Null, and a test failure, when it does not work.
std::shared_ptr<const Grammar> compile(std::string_view schema, const CompileOptions& options = {});
// The message of the refusal; "accepted" otherwise.
std::string refusal(std::string_view schema, const CompileOptions& options = {});

// The whole text is an output that the grammar allows.
bool allows(const std::shared_ptr<const Grammar>& grammar, std::string_view text);

// As JSON Schema says, for the keywords that grammars enforce.
bool is_valid(const Json& schema, const Json& value, const Json& root);

// Tokens that make a small vocabulary: every byte, pieces of JSON, words, and parts of characters.
const std::vector<std::string>& token_texts();
const TokenTrie& token_trie();

}  // namespace tempo9::grammar::testing
