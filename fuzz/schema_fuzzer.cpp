// JSON Schemas of any kind, compiled as an answer's content, or as the parameters of a tool in each way to write them.
// The first byte chooses which, the schema follows up to a NUL, and the bytes behind it choose the tokens of an output:
// masks must say what the grammar takes, and an output that may end must be JSON where it is to be.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "grammar/answer.h"
#include "grammar/matcher.h"

using namespace tempo9;
using namespace tempo9::grammar;
using nlohmann::ordered_json;

namespace {

const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"{\"", "\":", "\", \"", "\"}", "}}", "true", "null", "12", "abc", " world", "é", "中文",
                             "\xE4\xB8", "\\u00", "name", "<|\"|>", "\n</parameter>\n", "</function>", "<parameter="}) {
      out.emplace_back(text);
    }
    return out;
  }();
  return all;
}

const TokenTrie& trie() {
  static const TokenTrie made(static_cast<int64_t>(texts().size()),
                              [](int32_t id) -> std::string_view { return texts()[static_cast<size_t>(id)]; });
  return made;
}

Result<std::shared_ptr<const Grammar>> compile(uint8_t kind, const ordered_json& schema) {
  const CompileOptions options{.closed_objects = (kind & 4) != 0, .refuse_unenforced = (kind & 8) != 0};
  if (kind % 4 == 0) return Grammar::compile(schema, options);
  const Written written[] = {Written::kJson, Written::kXmlParameters, Written::kGemma};
  const AnswerSyntax syntax{.reasoning = {},
                            .calls = {.heads = {{"f", "("}}, .arguments = written[kind % 4 - 1], .end = ")"}};
  return compile_answer(syntax,
                        {.calls = AnswerRules::Calls::kRequired, .tools = {{"f", schema, options.closed_objects}}});
}

// The allowed token that `choice` points to; -1 where there is none.
int32_t choose(const TokenMask& mask, uint8_t choice) {
  const int64_t n_allowed = mask.count();
  if (n_allowed == 0) return -1;
  int64_t skip = choice * n_allowed / 256;
  for (int32_t id = 0;; ++id) {
    if (mask.has(id) && skip-- == 0) return id;
  }
}

void follow(const std::shared_ptr<const Grammar>& grammar, std::string_view choices, bool is_json) {
  Matcher matcher(grammar);
  TokenMask mask(trie().n_tokens());
  std::string text;
  for (const char choice : choices) {
    matcher.allowed_tokens(trie(), mask);
    const int32_t id = choose(mask, static_cast<uint8_t>(choice));
    if (id < 0) break;
    // One that is allowed, and one that may not be.
    T9_CHECK(mask.has(choice & 0x7F) == Matcher(matcher).accept(texts()[static_cast<size_t>(choice & 0x7F)]));
    T9_CHECK(matcher.accept(texts()[static_cast<size_t>(id)]));
    text += texts()[static_cast<size_t>(id)];
  }
  if (is_json && matcher.can_end()) T9_CHECK(ordered_json::accept(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t split = std::min(input.find('\0'), input.size());
  const ordered_json schema = ordered_json::parse(input.substr(0, split), nullptr, /*allow_exceptions=*/false);
  if (schema.is_discarded()) return 0;
  const auto grammar = compile(data[0], schema);
  if (!grammar) {
    T9_CHECK(!grammar.error().message().empty());
    return 0;
  }
  follow(*grammar, input.substr(std::min(split + 1, input.size())), data[0] % 4 == 0);
  return 0;
}
