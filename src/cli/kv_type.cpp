#include "cli/kv_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "tensor/kv_type_names.h"

namespace tempo9::cli {

CLI::Option* add_kv_type_option(CLI::App& app, std::string& name) {
  std::vector<std::string> names;
  for (const tensor::KvType type : tensor::kKvTypes) names.emplace_back(tensor::kv_type_name(type));
  CLI::IsMember member(std::move(names));
  member.description("");
  return app
      .add_option("--kv-type", name,
                  "How keys and values are held: f16; q8_0, int8 in about half the memory; f32 for comparison")
      ->type_name("TYPE")
      ->check(member);
}

Result<tensor::KvType> choose_kv_type(std::span<const tensor::KvType> held, const std::string& name) {
  if (name.empty()) return held.front();
  const auto* type = std::ranges::find(tensor::kKvTypes, name, tensor::kv_type_name);
  T9_CHECK_MSG(type != std::end(tensor::kKvTypes), name);
  if (std::ranges::find(held, *type) == held.end()) {
    return fail(ErrorCode::kUnsupported, fmt::format("--kv-type {}: this backend can't hold it", name));
  }
  return *type;
}

}  // namespace tempo9::cli
