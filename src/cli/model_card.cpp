#include "cli/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <variant>

#include "base/sha256.h"
#include "cli/main_dtype.h"

namespace tempo9::cli {

namespace {

using chat::Json;

// By general.file_type (spec gguf 2.4); empty: no longer written.
constexpr std::array<std::string_view, 42> kFileTypes = {
    "F32",    "F16",     "Q4_0",   "Q4_1",   "",       "",       "",       "Q8_0",  "Q5_0",    "Q5_1",   "Q2_K",
    "Q3_K_S", "Q3_K_M",  "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",  "IQ2_XXS", "IQ2_XS", "Q2_K_S",
    "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S",  "IQ2_M", "IQ4_XS",  "IQ1_M",  "BF16",
    "",       "",        "",       "TQ1_0",  "TQ2_0",  "MXFP4",  "NVFP4",  "Q1_0",  "Q2_0"};

// Long lists that hardly any client looks at.
constexpr std::array<std::string_view, 5> kTokenizerLists = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges",
                                                             "tokenizer.ggml.token_type", "tokenizer.ggml.scores",
                                                             "tokenizer.ggml.precompiled_charsmap"};

// What the file says of itself, or what most of it is.
std::string quantization(const gguf::File& file) {
  const auto type = file.metadata().find_int("general.file_type").value_or(std::nullopt);
  const bool is_known = type && *type >= 0 && *type < static_cast<int64_t>(kFileTypes.size());
  const std::string_view name = is_known ? kFileTypes[static_cast<size_t>(*type)] : std::string_view();
  return std::string(name.empty() ? main_dtype(file) : name);
}

std::string text_of(const gguf::Metadata& metadata, std::string_view key) {
  return metadata.find_string(key).value_or(std::nullopt).value_or("");
}

Json json_of(const gguf::MetaValue& value) {
  if (const auto* scalar = std::get_if<gguf::Scalar>(&value)) {
    return std::visit([](const auto& x) { return Json(x); }, *scalar);
  }
  return std::visit([](const auto& list) { return Json(list); }, std::get<gguf::Array>(value));
}

Json metadata_json(const gguf::Metadata& metadata, bool with_lists) {
  Json json = Json::object();
  for (const auto& [key, value] : metadata.entries()) {
    if (key == "general.name" || key.starts_with("tokenizer.chat_template")) continue;
    const bool is_list = std::ranges::find(kTokenizerLists, key) != kTokenizerLists.end();
    json[key] = is_list && !with_lists ? Json() : json_of(value);
  }
  return json;
}

// The file is not read for this: name, size and time tell it from another.
std::string digest(const gguf::File& file) {
  const std::string name = std::filesystem::path(file.path()).filename();
  return sha256_hex(fmt::format("{} {} {}", name, file.size_bytes(), file.modified_ns()));
}

}  // namespace

server::ModelCard make_model_card(std::shared_ptr<const gguf::File> file, const models::ModelInfo& info,
                                  std::string name, int64_t context_length) {
  server::ModelCard card{.name = std::move(name),
                         .created_s = file->modified_ns() / 1'000'000'000,
                         .context_length = context_length,
                         .size_bytes = file->size_bytes(),
                         .digest = digest(*file),
                         .family = info.architecture,
                         .n_parameters = info.n_parameters,
                         .n_layers = info.n_layers,
                         .embedding_length = info.n_embd,
                         .quantization = quantization(*file),
                         .license = text_of(file->metadata(), "general.license"),
                         .chat_template = text_of(file->metadata(), "tokenizer.chat_template")};
  card.metadata = [file = std::move(file)](bool with_lists) { return metadata_json(file->metadata(), with_lists); };
  return card;
}

}  // namespace tempo9::cli
