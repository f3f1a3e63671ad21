// A tokenizer whose ids are bytes, with control tokens, those of images among them: enough to see what a prompt is made
// of.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "tokenizer/tokenizer.h"

namespace tempo9::testing {

class ByteTokenizer : public tokenizer::Tokenizer {
 public:
  static constexpr int32_t kBos = 256;
  static constexpr int32_t kEos = 257;
  static constexpr int32_t kTurn = 258;
  static constexpr int32_t kImagePad = 260;
  static constexpr std::array<std::string_view, 6> kControl = {
      "<s>", "</s>", "<turn>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"};

  bool with_bos = true;

  Result<std::vector<int32_t>> encode(std::string_view text, const tokenizer::EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size();) {
      if (options.is_cancelled && i % 4096 == 0 && options.is_cancelled()) return fail(ErrorCode::kCancelled, "gone");
      const auto control = control_at(text, i, options);
      ids.push_back(control ? kBos + static_cast<int32_t>(*control) : static_cast<uint8_t>(text[i]));
      i += control ? kControl[*control].size() : 1;
    }
    const auto n = static_cast<int64_t>(ids.size());
    if (options.max_tokens > 0 && n > options.max_tokens) {
      return fail(Error(ErrorCode::kOutOfCapacity, "too many tokens").with_overflow(n, options.max_tokens));
    }
    return ids;
  }

  int64_t n_tokens() const override { return kBos + static_cast<int64_t>(kControl.size()); }
  std::string_view piece(int32_t id, bool special) const override {
    if (id >= 0 && id < 256) return {&bytes_[static_cast<size_t>(id)], 1};
    return special ? token_text(id) : std::string_view();
  }
  std::string_view token_text(int32_t id) const override {
    if (id >= kBos && id < n_tokens()) return kControl[static_cast<size_t>(id - kBos)];
    return piece(id, false);
  }
  tokenizer::TokenType type(int32_t id) const override {
    return id < 256 ? tokenizer::TokenType::kByte : tokenizer::TokenType::kControl;
  }
  std::string decode(std::span<const int32_t> ids, bool special) const override {
    std::string text;
    for (const int32_t id : ids) text += piece(id, special);
    return text;
  }
  std::optional<int32_t> bos() const override { return kBos; }
  std::optional<int32_t> eos() const override { return kEos; }
  bool adds_bos() const override { return with_bos; }
  bool adds_eos() const override { return false; }
  bool is_end_of_generation(int32_t id) const override { return id == kEos; }
  std::span<const int32_t> suppressed() const override { return {}; }
  std::string description() const override { return "bytes"; }

 private:
  static std::array<char, 256> all_bytes() {
    std::array<char, 256> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
    return bytes;
  }

  static std::optional<size_t> control_at(std::string_view text, size_t pos, const tokenizer::EncodeOptions& options) {
    if (!options.parse_special) return std::nullopt;
    for (size_t k = 0; k < kControl.size(); ++k) {
      if (!text.substr(pos).starts_with(kControl[k])) continue;
      if (!options.special_allowed) return k;
      const size_t end = pos + kControl[k].size();
      const auto covers = [&](const tokenizer::ByteRange& range) { return range.begin <= pos && end <= range.end; };
      if (std::ranges::any_of(*options.special_allowed, covers)) return k;
    }
    return std::nullopt;
  }

  const std::array<char, 256> bytes_ = all_bytes();
};

}  // namespace tempo9::testing
