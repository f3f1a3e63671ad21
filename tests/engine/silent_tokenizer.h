// For real models whose text does not matter.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/fake_model.h"

namespace tempo9::engine {

// No token has text, and none ends the answer.
class SilentTokenizer : public testing::FakeTokenizer {
 public:
  explicit SilentTokenizer(int64_t n_tokens) : n_tokens_(n_tokens) {}
  int64_t n_tokens() const override { return n_tokens_; }
  std::string_view token_text(int32_t) const override { return {}; }
  bool is_end_of_generation(int32_t) const override { return false; }
  std::span<const int32_t> suppressed() const override { return {}; }

 private:
  int64_t n_tokens_;
};

}  // namespace tempo9::engine
