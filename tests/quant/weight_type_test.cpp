#include <gtest/gtest.h>

#include "quant/quant.h"

namespace tempo9::quant {
namespace {

std::string refusal(uint32_t id) {
  const Result<void> result = check_weight_type("blk.3.ffn_up.weight", id);
  return result ? "accepted" : result.error().message();
}

TEST(CheckWeightType, AcceptsWhatHasADecoder) {
  for (const QuantType& type : all_types()) EXPECT_EQ(refusal(static_cast<uint32_t>(type.dtype)), "accepted");
}

TEST(CheckWeightType, RefusesEverythingElseByTensorTypeAndId) {
  for (uint32_t id = 0; id < 500; ++id) {
    const tensor::DTypeInfo* info = tensor::find_dtype(id);
    if (info != nullptr && find_type(info->dtype) != nullptr) continue;
    const std::string text = refusal(id);
    EXPECT_NE(text.find("blk.3.ffn_up.weight"), text.npos) << text;
    EXPECT_NE(text.find(std::to_string(id)), text.npos) << text;
    EXPECT_TRUE(info == nullptr || text.find(info->name) != text.npos) << text;
  }
}

TEST(CheckWeightType, SaysWhyAndTheWayOut) {
  EXPECT_EQ(refusal(17),
            "tensor blk.3.ffn_up.weight: type IQ2_XS (17) is not supported; use a Q4_K_M or Q8_0 build of this model");
  EXPECT_EQ(
      refusal(31),
      "tensor blk.3.ffn_up.weight: type Q4_0_4_4 (31) was removed from GGUF; use a Q4_K_M or Q8_0 build of this model");
  EXPECT_EQ(
      refusal(139),
      "tensor blk.3.ffn_up.weight: type 139 (IQ4_K) is a fork-specific format; use a Q4_K_M or Q8_0 build of this "
      "model");
  EXPECT_EQ(refusal(99999),
            "tensor blk.3.ffn_up.weight: type 99999 is unknown: the file is corrupt or newer than this program; use a "
            "Q4_K_M or Q8_0 build of this model");
  EXPECT_EQ(refusal(15),
            "tensor blk.3.ffn_up.weight: type Q8_K (15) is only used while computing: the file is corrupt");
  EXPECT_EQ(
      refusal(26),
      "tensor blk.3.ffn_up.weight: type I32 (26) is for tables and cannot hold weights; use a Q4_K_M or Q8_0 build "
      "of this model");
  EXPECT_EQ(check_weight_type("x", 17).error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(check_weight_type("x", 15).error().code(), ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace tempo9::quant
