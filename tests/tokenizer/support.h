// Loading and making tokenizers for tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/file.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::tokenizer::testing {

// Null, and a test failure, when it does not work.
inline std::unique_ptr<Tokenizer> load(const std::string& path) {
  const auto file = gguf::File::open(path);
  if (!file) {
    ADD_FAILURE() << file.error().message();
    return nullptr;
  }
  auto tokenizer = Tokenizer::create((*file)->metadata());
  if (!tokenizer) {
    ADD_FAILURE() << tokenizer.error().message();
    return nullptr;
  }
  return *std::move(tokenizer);
}

using Ids = std::vector<int32_t>;

inline Ids encode(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  auto ids = tokenizer.encode(text, options);
  if (!ids) {
    ADD_FAILURE() << ids.error().message();
    return {};
  }
  return *std::move(ids);
}

}  // namespace tempo9::tokenizer::testing
