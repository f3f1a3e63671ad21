#include "tokenizer/pre_tokenizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tokenizer/scanners.h"

namespace tempo9::tokenizer {
namespace {

constexpr Stage kGpt2Stage = {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
                              scan_gpt2};

constexpr Stage kO200kStage = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    scan_o200k};

constexpr Stage kThreeDigitsStage = {"[0-9][0-9][0-9]", scan_three_ascii_digits};
constexpr Stage kNewlineStage = {R"([\r\n])", scan_newline};
constexpr Stage kDeepSeekScriptsStage = {R"([\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+)", scan_deepseek_scripts};

constexpr std::array kGpt2 = {kGpt2Stage};
constexpr std::array kSingleDigitsThenGpt2 = {Stage{R"(\p{N})", scan_one_number}, kGpt2Stage};
constexpr std::array kFalcon = {Stage{R"([\p{P}\$\+<=>\^~\|`]+)", scan_falcon_punctuation}, kGpt2Stage,
                                kThreeDigitsStage};
constexpr std::array kLlama3 = {Stage{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    scan_llama3}};
constexpr std::array kQwen2 = {Stage{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    scan_qwen2}};
constexpr std::array kQwen35 = {Stage{R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                                      R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                      scan_qwen35}};
constexpr std::array kTekken = {Stage{R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
                                      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
                                      R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                                      scan_tekken}};
constexpr std::array kO200k = {kO200kStage};
constexpr std::array kThousandsThenO200k = {Stage{R"(\d{1,3}(?=(?:\d{3})*\b))", scan_thousands}, kO200kStage};
constexpr std::array kDeepSeekV3 = {
    Stage{R"(\p{N}{1,3})", scan_up_to_three_numbers},
    Stage{R"([\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+)", scan_han_and_kana},
    Stage{R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
          R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
          scan_deepseek_v3}};
constexpr std::array kDeepSeekCoder = {kNewlineStage, Stage{R"(\s?\p{L}+)", scan_letters},
                                       Stage{R"(\s?\p{P}+)", scan_punctuation}, kDeepSeekScriptsStage,
                                       Stage{R"(\p{N})", scan_one_number}};

constexpr const char* kDeepSeekLetters =
    R"(\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF)"
    R"(\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5)"
    R"(\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA)"
    R"(\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45)"
    R"(\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE)"
    R"(\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102)"
    R"(\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139)"
    R"(\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3)"
    R"(\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06)"
    R"(\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::array kDeepSeekLlm = {
    kNewlineStage,
    Stage{kDeepSeekLetters, scan_deepseek_letters},
    Stage{R"(\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+)", scan_deepseek_punctuation},
    Stage{R"(\s+$)", scan_trailing_whitespace},
    kDeepSeekScriptsStage,
    Stage{R"(\p{N}+)", scan_numbers}};

// To add a family: one line here, and a scanner if its expression is new. A family that is absent is refused: those
// of encoders (jina, roberta-bpe, modern-bert), which generate nothing, and "default", which is that of no model.
constexpr std::array kPreTokenizers = {
    PreTokenizer{.name = "a.x-4.0", .stages = kGpt2},
    PreTokenizer{.name = "chatglm-bpe", .stages = kLlama3},
    PreTokenizer{.name = "codeshell", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "cohere2moe", .stages = kThousandsThenO200k},
    PreTokenizer{.name = "command-r", .stages = kSingleDigitsThenGpt2, .nfc = true},
    PreTokenizer{.name = "dbrx", .stages = kLlama3},
    PreTokenizer{.name = "deepseek-coder", .stages = kDeepSeekCoder},
    PreTokenizer{.name = "deepseek-llm", .stages = kDeepSeekLlm},
    PreTokenizer{.name = "deepseek-r1-qwen", .stages = kQwen2, .nfc = true},
    PreTokenizer{.name = "deepseek-v3", .stages = kDeepSeekV3},
    PreTokenizer{.name = "exaone", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "exaone4", .stages = kGpt2},
    PreTokenizer{.name = "f2llmv2", .stages = kQwen2},
    PreTokenizer{.name = "falcon", .stages = kFalcon},
    PreTokenizer{.name = "falcon-h1", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "falcon3", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "gigachat", .stages = kGpt2},
    PreTokenizer{.name = "glm4", .stages = kLlama3},
    PreTokenizer{.name = "gpt-2", .stages = kGpt2},
    PreTokenizer{.name = "gpt-4o", .stages = kO200k},
    PreTokenizer{.name = "granite-docling", .stages = kGpt2},
    PreTokenizer{.name = "grok-2", .stages = kQwen2},
    PreTokenizer{.name = "hunyuan", .stages = kQwen2},
    PreTokenizer{.name = "hunyuan-dense", .stages = kDeepSeekV3},
    PreTokenizer{.name = "hy_v4", .stages = kDeepSeekV3},
    PreTokenizer{.name = "jais", .stages = kGpt2},
    PreTokenizer{.name = "joyai-llm", .stages = kDeepSeekV3},
    PreTokenizer{.name = "kanana2", .stages = kO200k},
    PreTokenizer{.name = "kormo", .stages = kQwen2},
    PreTokenizer{.name = "lfm2", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "llama-bpe", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "llama-v3", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "llama3", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "llama4", .stages = kO200k},
    PreTokenizer{.name = "megrez", .stages = kQwen2},
    PreTokenizer{.name = "mellum", .stages = kGpt2},
    PreTokenizer{.name = "mellum2", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "midm-2.0", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "minerva-7b", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "minimax-m2", .stages = kO200k},
    PreTokenizer{.name = "mpt", .stages = kGpt2},
    PreTokenizer{.name = "olmo", .stages = kGpt2},
    PreTokenizer{.name = "openpangu", .stages = kQwen2},
    PreTokenizer{.name = "phi-2", .stages = kGpt2},
    PreTokenizer{.name = "pixtral", .stages = kLlama3, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "qwen2", .stages = kQwen2, .nfc = true},
    PreTokenizer{.name = "qwen35", .stages = kQwen35, .nfc = true},
    PreTokenizer{.name = "refact", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "smaug-bpe", .stages = kLlama3},
    PreTokenizer{.name = "smollm", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "solar-open", .stages = kQwen2},
    PreTokenizer{.name = "stablelm2", .stages = kQwen2},
    PreTokenizer{.name = "starcoder", .stages = kSingleDigitsThenGpt2},
    PreTokenizer{.name = "talkie", .stages = kO200k},
    PreTokenizer{.name = "tekken", .stages = kTekken, .adds_bos = true, .ignore_merges = true},
    PreTokenizer{.name = "tiny_aya", .stages = kThousandsThenO200k},
    PreTokenizer{.name = "trillion", .stages = kGpt2},
};

}  // namespace

std::span<const PreTokenizer> pre_tokenizers() { return kPreTokenizers; }

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kPreTokenizers, name, &PreTokenizer::name);
  return found == kPreTokenizers.end() ? nullptr : &*found;
}

std::string pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& pre : kPreTokenizers) names.push_back(pre.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace tempo9::tokenizer
