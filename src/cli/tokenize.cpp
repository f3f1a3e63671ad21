// tempo9 tokenize: text to token ids and back, with a model file's tokenizer.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.h"
#include "cli/input.h"
#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::cli {
namespace {

struct TokenizeOptions {
  std::string gguf;
  std::string pre;
  bool no_special = false;
  bool no_nfc = false;
  bool decode = false;
};

Result<std::unique_ptr<tokenizer::Tokenizer>> load_tokenizer(const TokenizeOptions& options) {
  T9_TRY(file, gguf::File::open(options.gguf, {.load_parts = false}));
  auto loaded = tokenizer::Tokenizer::create(file->metadata(), {.pre = options.pre});
  if (!loaded) return fail(std::move(loaded).error().context(options.gguf));
  return loaded;
}

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) return fail(ErrorCode::kInvalidInput, "standard input is not a JSON array of token ids");
  std::vector<int32_t> ids;
  for (const auto& element : json) {
    const int64_t id = element.is_number_integer() ? element.get<int64_t>() : -1;
    if (id < 0 || id > INT32_MAX) {
      return fail(ErrorCode::kInvalidInput, fmt::format("element {} is no token id", ids.size()));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Result<std::string> transform(const TokenizeOptions& options, const std::string& input) {
  T9_TRY(tokenizer, load_tokenizer(options));
  for (const std::string& warning : tokenizer->warnings()) fmt::print(stderr, "tempo9: {}\n", warning);
  if (options.decode) {
    T9_TRY(ids, parse_ids(input));
    return tokenizer->decode(ids, !options.no_special);
  }
  T9_TRY(ids, tokenizer->encode(input, {.parse_special = !options.no_special, .normalize = !options.no_nfc}));
  return nlohmann::json(ids).dump() + "\n";
}

int run(const TokenizeOptions& options) {
  const auto output = transform(options, read_stdin());
  if (!output) {
    fmt::print(stderr, "tempo9: {}\n", output.error().message());
    return kExitFailure;
  }
  std::cout << *output << std::flush;
  return std::cout ? kExitOk : kExitFailure;
}

}  // namespace

void add_tokenize_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command =
      app.add_subcommand("tokenize", "Text on standard input to a JSON array of token ids; no BOS added");
  command->add_option("--gguf", options->gguf, "Model file whose tokenizer is used")->required();
  command->add_option("--pre", options->pre, "Pre-tokenizer to use instead of the one the file names");
  command->add_flag("--no-special", options->no_special,
                    "Read special tokens written in the text as plain text; with --decode, leave them out");
  command->add_flag("--no-nfc", options->no_nfc, "Do not bring the text to Unicode normal form C first");
  command->add_flag("--decode", options->decode, "The reverse: a JSON array of token ids on standard input to text");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tempo9::cli
