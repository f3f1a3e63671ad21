// Damaged and strange projector files: refused with what is wrong.
#include "vision/projector.h"

#include <gtest/gtest.h>

#include <functional>

#include "support/data.h"
#include "tiny_projector.h"

namespace tempo9::vision {
namespace {

Result<Projector> read(const std::vector<std::byte>& bytes) {
  T9_TRY(file, gguf::File::parse(bytes, "tiny.gguf"));
  return Projector::read(std::move(file));
}

// The file again, with what `change` does to a pair or tensor (false: left out).
struct Edit {
  std::function<bool(const std::string& key, gguf::MetaValue& value)> pair = nullptr;
  std::function<bool(gguf::TensorInfo& info, std::vector<std::byte>& data)> tensor = nullptr;
};

std::vector<std::byte> edited(const std::vector<std::byte>& bytes, const Edit& edit) {
  const auto file = gguf::File::parse(bytes, "tiny.gguf");
  gguf::Writer writer;
  for (auto [key, value] : (*file)->metadata().entries()) {
    if (edit.pair && !edit.pair(key, value)) continue;
    writer.add(key, value);
  }
  for (gguf::TensorInfo info : (*file)->tensors()) {
    const std::byte* from = (*file)->view(info).data;
    std::vector<std::byte> data(from, from + info.bytes);
    if (edit.tensor && !edit.tensor(info, data)) continue;
    writer.add_tensor(info.name, info.dtype, {info.ne, info.ne + info.n_dims}, std::move(data));
  }
  return writer.bytes();
}

Edit without_tensor(const std::string& name) {
  return {.pair = nullptr, .tensor = [name](gguf::TensorInfo& info, auto&) { return info.name != name; }};
}
Edit without_key(const std::string& key) {
  return {.pair = [key](const std::string& k, auto&) { return k != key; }, .tensor = nullptr};
}
Edit with_value(const std::string& key, gguf::MetaValue value) {
  return {.pair =
              [key, value](const std::string& k, gguf::MetaValue& v) {
                if (k == key) v = value;
                return true;
              },
          .tensor = nullptr};
}

void expect_refused(const std::vector<std::byte>& bytes, const std::string& text) {
  const auto projector = read(bytes);
  ASSERT_FALSE(projector.has_value()) << text;
  EXPECT_NE(projector.error().message().find(text), std::string::npos) << projector.error().message();
}

TEST(Projector, IsReadInAllFamilies) {
  for (const char* name : kFamilyNames) {
    const auto projector = read(TinyProjector(name).bytes());
    ASSERT_TRUE(projector.has_value()) << projector.error().message();
    EXPECT_EQ(projector->spec.projector_type, name);
    EXPECT_EQ(projector->spec.embedding_cols(), std::string_view(name) == "qwen3vl_merger" ? 64 : 32);
  }
}

TEST(Projector, EveryTensorAndKeyIsMissed) {
  for (const char* name : kFamilyNames) {
    const std::vector<std::byte> bytes = TinyProjector(name).bytes();
    const auto file = gguf::File::parse(bytes, "tiny.gguf");
    for (const gguf::TensorInfo& info : (*file)->tensors()) {
      const bool may_be_absent = info.name.ends_with(".bias") || info.name.ends_with(".weight.1") ||
                                 info.name.ends_with("_min") || info.name.ends_with("_max") ||
                                 info.name.starts_with("v.std_");
      // The gate says that there is one.
      if (may_be_absent || info.name.ends_with("ffn_gate.weight")) continue;
      expect_refused(edited(bytes, without_tensor(info.name)), "is missing");
    }
  }
  const std::vector<std::byte> bytes = TinyProjector("qwen2.5vl_merger").bytes();
  for (const char* key :
       {"clip.projector_type", "clip.vision.patch_size", "clip.vision.embedding_length", "clip.vision.block_count",
        "clip.vision.attention.head_count", "clip.vision.projection_dim", "clip.vision.image_mean",
        "clip.vision.image_std", "clip.vision.attention.layer_norm_epsilon", "clip.vision.n_wa_pattern"}) {
    expect_refused(edited(bytes, without_key(key)), key);
  }
}

TEST(Projector, WrongValuesAreNamed) {
  const std::vector<std::byte> bytes = TinyProjector("qwen3vl_merger").bytes();
  const auto count = [](uint32_t n) { return gguf::MetaValue(gguf::Scalar(n)); };
  expect_refused(edited(bytes, with_value("clip.vision.patch_size", count(0))), "clip.vision.patch_size");
  expect_refused(edited(bytes, with_value("clip.vision.block_count", count(4000000000u))), "clip.vision.block_count");
  expect_refused(edited(bytes, with_value("clip.vision.block_count", count(3))), "must have 3");
  expect_refused(edited(bytes, with_value("clip.vision.embedding_length", count(64))), "has dimensions");
  expect_refused(edited(bytes, with_value("clip.vision.attention.head_count", count(5))), "5 heads");
  expect_refused(edited(bytes, with_value("clip.vision.projection_dim", count(33))), "has dimensions");
  expect_refused(edited(bytes, with_value("clip.vision.image_std", gguf::Array(std::vector<float>(3)))), "image_std");
  expect_refused(edited(bytes, with_value("clip.vision.image_mean", gguf::Array(std::vector<float>(2)))), "2 values");
  expect_refused(edited(bytes, with_value("clip.vision.is_deepstack_layers", gguf::Array(std::vector<bool>(3)))),
                 "is_deepstack_layers");
  expect_refused(edited(bytes, with_value("clip.projector_type", gguf::Scalar(std::string("pixtral")))),
                 "\"pixtral\" is not implemented");
  // Gemma 4 12B's, which has no transformer: what is known of its tensors is not enough.
  expect_refused(edited(bytes, with_value("clip.projector_type", gguf::Scalar(std::string("gemma4uv")))),
                 "\"gemma4uv\" is not implemented; these are: qwen3vl_merger");
  expect_refused(edited(bytes, with_value("general.architecture", gguf::Scalar(std::string("llama")))), "llama");
}

TEST(Projector, ValuesThatAreNoNumbersAreRefused) {
  const std::vector<std::byte> bytes = TinyProjector("qwen2vl_merger").bytes();
  const auto spoiled =
      edited(bytes, {.pair = nullptr, .tensor = [](gguf::TensorInfo& info, std::vector<std::byte>& data) {
                       const float nan = NAN;
                       if (info.name == "v.blk.1.ln2.bias") std::memcpy(data.data(), &nan, sizeof nan);
                       return true;
                     }});
  expect_refused(spoiled, "v.blk.1.ln2.bias");
}

TEST(Projector, ExchangedNamesOfTheFeedForwardAreUnderstood) {
  const std::vector<std::byte> bytes = TinyProjector("qwen2vl_merger").bytes();
  const auto exchanged = edited(bytes, {.pair = nullptr, .tensor = [](gguf::TensorInfo& info, auto&) {
                                          const size_t up = info.name.find("ffn_up");
                                          const size_t down = info.name.find("ffn_down");
                                          if (up != std::string::npos) info.name.replace(up, 6, "ffn_down");
                                          if (down != std::string::npos) info.name.replace(down, 8, "ffn_up");
                                          return true;
                                        }});
  const auto projector = read(exchanged);
  ASSERT_TRUE(projector.has_value()) << projector.error().message();
  EXPECT_EQ(projector->spec.blocks[0].up.weight.rows, 64);
  EXPECT_EQ(projector->spec.blocks[0].down.weight.rows, 32);
}

// Every truncation and a byte changed at every place of the head: an error or a projector, never more.
TEST(Projector, DamagedBytesAreHarmless) {
  const std::vector<std::byte> bytes =
      TinyProjector("qwen3vl_merger", {.width = 8, .ffn = 8, .blocks = 1, .heads = 1, .out = 8, .patch = 2, .side = 2})
          .bytes();
  for (size_t n = 0; n < bytes.size(); n += 1 + n / 64) {
    EXPECT_FALSE(read(std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n))));
  }
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 6000); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{0x41};
    (void)read(damaged);
  }
}

TEST(Projector, LanguageModelsAreRefused) {
  const auto projector = Projector::open(testing::golden_path("qwen2/model.gguf"));
  ASSERT_FALSE(projector.has_value());
  EXPECT_NE(projector.error().message().find("must be \"clip\""), std::string::npos) << projector.error().message();
}

}  // namespace
}  // namespace tempo9::vision
