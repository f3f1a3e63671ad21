// Tensor types that cannot be weights: for each, a file that has one is refused, and the message names the tensor, the
// type and the way out.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "model_file.h"
#include "support/data.h"
#include "tensor/dtype.h"

namespace tempo9 {
namespace {

constexpr std::string_view kTensor = "blk.0.ffn_up.weight";

// The bytes of a small model with the type id of kTensor overwritten, as no writer would.
std::vector<std::byte> with_type_id(uint32_t id) {
  static const std::vector<std::byte> model = [] {
    return ModelFile::read(testing::golden_path("quant/Q4_0/model.gguf")).load().bytes;
  }();
  std::vector<std::byte> bytes = model;
  const auto name = std::as_bytes(std::span(kTensor));
  const auto found = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  const auto dims = found + static_cast<std::ptrdiff_t>(name.size());
  uint32_t n_dims = 0;
  std::memcpy(&n_dims, &*dims, sizeof n_dims);
  std::memcpy(&*dims + sizeof n_dims + n_dims * sizeof(uint64_t), &id, sizeof id);
  return bytes;
}

std::string refusal(const std::vector<std::byte>& bytes) {
  auto file = gguf::File::parse(bytes, "test.gguf");
  if (!file) return file.error().message();
  const auto model = models::load_model(*std::move(file));
  return model ? "it was loaded" : model.error().message();
}

// A well-formed file with the tensor in this type.
std::string refusal_of_type(tensor::DType type) {
  ModelFile file = ModelFile::read(testing::golden_path("quant/Q4_0/model.gguf"));
  file.reshape(kTensor, {256, 256}, type);
  const auto loaded = file.load();
  return loaded.model ? "it was loaded" : loaded.model.error().message();
}

std::string message(std::string_view what) { return fmt::format("test.gguf: tensor {}: {}", kTensor, what); }

TEST(RefusedTypes, AreNamedWithAWayOut) {
  int n = 0;
  for (const tensor::DTypeInfo& type : tensor::all_dtypes()) {
    const std::string name = fmt::format("type {} ({})", type.name, static_cast<uint32_t>(type.dtype));
    switch (type.state) {
      case tensor::DTypeState::kUsable:
      case tensor::DTypeState::kRemoved:
        continue;
      case tensor::DTypeState::kRefused:
        EXPECT_EQ(refusal_of_type(type.dtype),
                  message(name + " is not supported; use a Q4_K_M or Q8_0 build of this model"));
        break;
      case tensor::DTypeState::kPlain:
        EXPECT_EQ(refusal_of_type(type.dtype),
                  message(name + " is for tables and cannot hold weights; use a Q4_K_M or Q8_0 build of this model"));
        break;
      case tensor::DTypeState::kActivation:
        EXPECT_EQ(refusal_of_type(type.dtype), message(name + " is only used while computing: the file is corrupt"));
        break;
    }
    ++n;
  }
  EXPECT_GE(n, 19);
}

TEST(RefusedTypes, RemovedOnesAreNamed) {
  int n = 0;
  for (const tensor::DTypeInfo& type : tensor::all_dtypes()) {
    if (type.state != tensor::DTypeState::kRemoved) continue;
    const auto id = static_cast<uint32_t>(type.dtype);
    EXPECT_EQ(
        refusal(with_type_id(id)),
        message(fmt::format("type {} ({}) was removed from GGUF; use a Q4_0, Q4_K_M or Q8_0 build", id, type.name)));
    ++n;
  }
  EXPECT_EQ(n, 8);
}

TEST(RefusedTypes, ThoseOfForksAreNamed) {
  int n = 0;
  for (uint32_t id = 0; id < 400; ++id) {
    const std::string_view name = tensor::fork_dtype_name(id);
    if (name.empty()) continue;
    EXPECT_EQ(refusal(with_type_id(id)),
              message(fmt::format("uses type {} ({}), a fork-specific format; use a Q4_K_M or Q8_0 build", id, name)));
    ++n;
  }
  EXPECT_GT(n, 220);
}

TEST(RefusedTypes, UnknownOnesAreNumbered) {
  const auto n_types = static_cast<uint32_t>(tensor::all_dtypes().size());
  for (const uint32_t id : {n_types, n_types + 1, 96u, 132u, 400u, 99999u, UINT32_MAX}) {
    EXPECT_EQ(refusal(with_type_id(id)), message(fmt::format("unknown type {}", id)));
  }
}

}  // namespace
}  // namespace tempo9
