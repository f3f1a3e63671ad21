#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace tempo9::tensor {
namespace {

constexpr std::array kTypes = {
#define T9_DTYPE(name, id, elements, bytes, state) DTypeInfo{DType::k##name, #name, elements, bytes, DTypeState::state},
#include "tensor/dtypes.def"
#undef T9_DTYPE
};

struct ForkType {
  uint32_t id;
  std::string_view name;
};
constexpr ForkType kForkTypes[] = {
    {97, "Q8_0_X4"},  {98, "Q8_1_X4"}, {99, "Q8_2_X4"},  {133, "Q6_0"},   {134, "IQ1_BN"}, {135, "IQ2_BN"},
    {136, "Q8_K64"},  {137, "IQ2_K"},  {138, "IQ3_K"},   {139, "IQ4_K"},  {140, "IQ5_K"},  {141, "IQ6_K"},
    {144, "IQ4_KS"},  {145, "IQ2_KS"}, {146, "IQ4_KSS"}, {147, "Q8_K16"}, {148, "Q8_K32"}, {149, "Q8_KR8"},
    {150, "Q8_K128"}, {151, "Q8_KV"},  {152, "IQ5_KS"},  {153, "IQ2_KT"}, {154, "IQ3_KT"}, {155, "IQ4_KT"},
    {156, "IQ3_KS"},  {157, "IQ2_KL"}, {158, "IQ1_KT"},
};

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return kTypes; }

const DTypeInfo* find_dtype(uint32_t id) {
  // The table is dense: ids count up from 0.
  return id < kTypes.size() ? &kTypes[id] : nullptr;
}

const DTypeInfo& dtype_info(DType dtype) {
  const DTypeInfo* info = find_dtype(static_cast<uint32_t>(dtype));
  T9_CHECK(info != nullptr);
  return *info;
}

std::string_view fork_dtype_name(uint32_t id) {
  for (const ForkType& fork : kForkTypes) {
    if (fork.id == id) return fork.name;
  }
  return id >= 200 && id < 400 ? "row-interleaved variant" : "";
}

}  // namespace tempo9::tensor
