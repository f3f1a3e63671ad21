// The families of projectors, one file each in families/, and the list of them.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "vision/projector.h"
#include "vision/projector_reader.h"

namespace tempo9::vision {

struct Family {
  std::string_view projector_type;  // as in the file
  // Fills in the spec. Mistakes of the file may be left to reader.status().
  Result<void> (*read)(ProjectorReader& reader, TowerSpec& spec);
};

Result<void> read_qwen2vl(ProjectorReader& reader, TowerSpec& spec);
Result<void> read_qwen25vl(ProjectorReader& reader, TowerSpec& spec);
Result<void> read_qwen3vl(ProjectorReader& reader, TowerSpec& spec);
Result<void> read_gemma3(ProjectorReader& reader, TowerSpec& spec);
Result<void> read_gemma4v(ProjectorReader& reader, TowerSpec& spec);

std::span<const Family> all_families();

}  // namespace tempo9::vision
