// A model, backend and tokenizer whose logits are a function of the token history, read back from the real page tables:
// whatever mixes up pages, slots or chunks changes the answers. For tests of the engine.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "engine/sampler/random.h"
#include "models/model.h"
#include "tokenizer/tokenizer.h"

namespace tempo9::testing {

inline constexpr int32_t kEndToken = 0;
inline constexpr int32_t kSuppressedToken = 1;
inline constexpr int64_t kFakeTokens = 60;
inline constexpr int64_t kFakeVocab = 64;  // padded
inline constexpr int64_t kFakeWindow = 40;

// Token i >= 2 is the i-th of the given pieces, or a letter or two.
class FakeTokenizer : public tokenizer::Tokenizer {
 public:
  explicit FakeTokenizer(std::map<int32_t, std::string> pieces = {}) {
    for (int32_t id = 0; id < kFakeTokens; ++id) {
      const std::string letter(1, static_cast<char>('a' + id % 26));
      pieces_.push_back(id < 2 ? "" : id < 28 ? letter : letter + letter);
    }
    for (auto& [id, piece] : pieces) pieces_[static_cast<size_t>(id)] = piece;
  }

  Result<std::vector<int32_t>> encode(std::string_view, const tokenizer::EncodeOptions&) const override {
    return fail(ErrorCode::kUnsupported, "a fake");
  }
  int64_t n_tokens() const override { return kFakeTokens; }
  std::string_view piece(int32_t id, bool) const override { return token_text(id); }
  std::string_view token_text(int32_t id) const override {
    return id >= 0 && id < kFakeTokens ? std::string_view(pieces_[static_cast<size_t>(id)]) : std::string_view();
  }
  tokenizer::TokenType type(int32_t id) const override {
    return id < 2 ? tokenizer::TokenType::kControl : tokenizer::TokenType::kNormal;
  }
  std::string decode(std::span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) text += token_text(id);
    return text;
  }
  std::optional<int32_t> bos() const override { return std::nullopt; }
  std::optional<int32_t> eos() const override { return kEndToken; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  bool is_end_of_generation(int32_t id) const override { return id == kEndToken; }
  std::span<const int32_t> suppressed() const override { return suppressed_; }
  std::string description() const override { return "fake"; }

 private:
  std::vector<std::string> pieces_;
  std::vector<int32_t> suppressed_{kSuppressedToken};
};

// Writes the logits of the token that follows `history`.
using LogitsFunction = std::function<void(std::span<const int32_t> history, std::span<float> logits)>;

// Every logit looks random. The end token is rare; the suppressed token and the padding would win.
inline void hashed_logits(std::span<const int32_t> history, std::span<float> logits) {
  uint64_t hash = 1;
  for (const int32_t token : history) hash = engine::mix64(hash * 31 + static_cast<uint64_t>(token) + 1);
  for (size_t id = 0; id < logits.size(); ++id) {
    logits[id] = 6.0f * static_cast<float>(engine::uniform_at(hash, id));
  }
  logits[kEndToken] -= 1.0f;
  logits[kSuppressedToken] = 100.0f;
  for (size_t id = kFakeTokens; id < logits.size(); ++id) logits[id] = 100.0f;
}

// Greedy answer: `script`, then the end token. The history begins with a prompt of `n_prompt` tokens.
inline LogitsFunction scripted_logits(size_t n_prompt, std::vector<int32_t> script) {
  return [=](std::span<const int32_t> history, std::span<float> logits) {
    std::ranges::fill(logits, 0.0f);
    const size_t i = history.size() - n_prompt;
    logits[static_cast<size_t>(i < script.size() ? script[i] : kEndToken)] = 10.0f;
  };
}

// What the fake stores of a token in K and V of each layer.
struct FakeSlot {
  int32_t mark = 0;  // slot + 1: 0 is an empty slot
  int32_t token = 0;
};

// Layer 0 keeps every token, layer 1 a window.
class FakeExecutable : public backends::Executable {
 public:
  using Hook = std::function<void(const tensor::Batch&)>;
  FakeExecutable(const LogitsFunction& logits, const Hook& on_run, const Hook& on_end, backends::CompileOptions limits)
      : logits_(logits), on_run_(on_run), on_end_(on_end), limits_(limits) {}

  void run(const tensor::Batch& batch, const backends::RunOutputs& outputs, const backends::Observer*) override {
    write_rows(batch, outputs);
    make_logits(batch, outputs.logits);
  }
  int64_t begin_parts(const tensor::Batch&) override { return 2; }
  void run_part(const tensor::Batch& batch, const backends::RunOutputs& outputs, int64_t part) override {
    part == 0 ? write_rows(batch, outputs) : make_logits(batch, outputs.logits);
  }
  void replay(const tensor::StateView&, std::span<const int64_t>) override {}

 private:
  void write_rows(const tensor::Batch& batch, const backends::RunOutputs& outputs) {
    if (on_run_) on_run_(batch);
    ASSERT_LE(batch.n_rows(), limits_.max_rows);
    ASSERT_LE(batch.n_outputs(), limits_.max_outputs);
    ASSERT_EQ(outputs.logits.rows, batch.n_outputs());
    check_row_order(batch);
    for (int64_t row = 0; row < batch.n_rows(); ++row) write_row(batch, row);
  }

  void make_logits(const tensor::Batch& batch, tensor::MatView<float> logits) {
    if (on_end_) on_end_(batch);
    int64_t output = 0;
    for (int64_t row = 0; row < batch.n_rows(); ++row) {
      if (output == batch.n_outputs() || batch.outputs[static_cast<size_t>(output)] != row) continue;
      const std::vector<int32_t> history = read_history(batch, row);
      logits_(history, logits.row_span(output++));
    }
    ASSERT_EQ(output, batch.n_outputs());
  }

  static FakeSlot* slot_of(const tensor::Batch& batch, size_t layer, std::byte* memory, int32_t sequence,
                           int32_t slot) {
    const tensor::KvLayerView& view = batch.kv.layers[layer];
    const auto pages = batch.kv.table(view.pool, sequence).pages;
    const int32_t page = pages[static_cast<size_t>(slot / tensor::kPageTokens)];
    EXPECT_NE(page, tensor::kNoPage);
    return reinterpret_cast<FakeSlot*>(memory + static_cast<size_t>(page) * view.k_page_bytes) +
           slot % tensor::kPageTokens;
  }

  static void check_row_order(const tensor::Batch& batch) {
    std::set<int32_t> seen;
    for (size_t row = 0; row < batch.tokens.size(); ++row) {
      ASSERT_EQ(batch.positions[row], batch.slots[row]);
      ASSERT_TRUE(batch.tokens[row] >= 0 && batch.tokens[row] < kFakeVocab);
      const bool continues = row > 0 && batch.sequences[row] == batch.sequences[row - 1];
      if (continues) {
        ASSERT_EQ(batch.slots[row], batch.slots[row - 1] + 1);
      } else {
        ASSERT_TRUE(seen.insert(batch.sequences[row]).second) << "rows of a sequence are not adjacent";
      }
    }
  }

  static void write_row(const tensor::Batch& batch, int64_t row) {
    const size_t r = static_cast<size_t>(row);
    const int32_t slot = batch.slots[r];
    for (size_t layer = 0; layer < 2; ++layer) {
      for (std::byte* memory : {batch.kv.layers[layer].k, batch.kv.layers[layer].v}) {
        FakeSlot* const target = slot_of(batch, layer, memory, batch.sequences[r], slot);
        for (int64_t i = 0; i < tensor::kPageTokens - slot % tensor::kPageTokens; ++i) {
          // Zero, or what another text had there: a page of which a part agrees is copied whole.
          ASSERT_TRUE(target[i].mark == 0 || target[i].mark == slot + i + 1) << "slot " << slot << " + " << i;
        }
        *target = {.mark = slot + 1, .token = batch.tokens[r]};
      }
    }
  }

  static std::vector<int32_t> read_history(const tensor::Batch& batch, int64_t row) {
    const size_t r = static_cast<size_t>(row);
    std::vector<int32_t> history;
    for (int32_t slot = 0; slot <= batch.slots[r]; ++slot) {
      const FakeSlot stored = *slot_of(batch, 0, batch.kv.layers[0].k, batch.sequences[r], slot);
      EXPECT_EQ(stored.mark, slot + 1);
      history.push_back(stored.token);
      if (batch.slots[r] - slot >= kFakeWindow) continue;
      const FakeSlot sliding = *slot_of(batch, 1, batch.kv.layers[1].v, batch.sequences[r], slot);
      EXPECT_EQ(sliding.mark, slot + 1);
      EXPECT_EQ(sliding.token, stored.token);
    }
    return history;
  }

  const LogitsFunction& logits_;
  const Hook& on_run_;
  const Hook& on_end_;
  backends::CompileOptions limits_;
};

class FakeBackend : public backends::Backend {
 public:
  explicit FakeBackend(LogitsFunction logits = hashed_logits) : logits_(std::move(logits)) {}

  // Called at the begin of each pass, and of its second part. Set them before the engine is created.
  FakeExecutable::Hook on_run;
  FakeExecutable::Hook on_end;

  std::string name() const override { return "fake"; }
  std::string description() const override { return "fake"; }
  Result<Buffer> reserve(size_t bytes) override { return Buffer::reserve(bytes); }
  std::span<const tensor::KvType> kv_types() const override { return kTypes; }
  backends::KvPageBytes kv_page_bytes(const tensor::KvLayerSpec&, tensor::KvType) const override {
    return {.k = kPageBytes, .v = kPageBytes};
  }
  Result<std::unique_ptr<backends::Executable>> compile(const tensor::Program&, std::span<const tensor::WeightView>,
                                                        const backends::CompileOptions& options) override {
    return std::make_unique<FakeExecutable>(logits_, on_run, on_end, options);
  }

 private:
  static constexpr std::array kTypes{tensor::KvType::kF16};
  static constexpr size_t kPageBytes = sizeof(FakeSlot) * tensor::kPageTokens;
  LogitsFunction logits_;
};

inline models::Model fake_model() {
  models::Model model;
  model.info.n_vocab = kFakeVocab;
  model.program.kv_layers = {{.n_kv_heads = 1, .k_head_dim = 4, .v_head_dim = 4, .window = 0},
                             {.n_kv_heads = 1, .k_head_dim = 4, .v_head_dim = 4, .window = kFakeWindow}};
  return model;
}

}  // namespace tempo9::testing
