#include "vision/projector.h"

#include <fmt/format.h>

#include <algorithm>

#include "vision/families.h"

namespace tempo9::vision {
namespace {

constexpr Family kFamilies[] = {
    {"qwen3vl_merger", read_qwen3vl}, {"qwen2vl_merger", read_qwen2vl}, {"qwen2.5vl_merger", read_qwen25vl},
    {"gemma3", read_gemma3},          {"gemma4v", read_gemma4v},
};

Result<std::string> read_projector_type(const gguf::Metadata& metadata) {
  T9_TRY(architecture, metadata.find_string("general.architecture"));
  if (architecture.value_or("") != "clip") {
    return fail(ErrorCode::kInvalidInput, fmt::format("no projector: general.architecture is \"{}\", must be \"clip\"",
                                                      architecture.value_or("")));
  }
  for (const char* key : {"clip.projector_type", "clip.vision.projector_type"}) {
    T9_TRY(type, metadata.find_string(key));
    if (type) return *std::move(type);
  }
  return fail(ErrorCode::kInvalidInput, "metadata clip.projector_type is missing");
}

Result<void> read_spec(ProjectorReader& reader, TowerSpec& spec) {
  T9_TRY(type, read_projector_type(reader.metadata()));
  const auto families = all_families();
  const auto family = std::ranges::find(families, type, &Family::projector_type);
  if (family == families.end()) {
    std::vector<std::string_view> known;
    for (const Family& each : families) known.push_back(each.projector_type);
    return fail(ErrorCode::kUnsupported,
                fmt::format("projector type \"{}\" is not implemented; these are: {}", type, fmt::join(known, ", ")));
  }
  T9_TRY(has_vision, reader.metadata().find_bool("clip.has_vision_encoder"));
  if (!has_vision.value_or(true)) return fail(ErrorCode::kUnsupported, "the projector has no vision encoder");
  spec.projector_type = type;
  T9_TRY_VOID(reader.read_common(spec));
  T9_TRY_VOID(family->read(reader, spec));
  return reader.status();
}

}  // namespace

std::span<const Family> all_families() { return kFamilies; }

Result<Projector> Projector::open(const std::string& path) {
  T9_TRY(file, gguf::File::open(path));
  return read(std::move(file));
}

Result<Projector> Projector::read(std::unique_ptr<gguf::File> file) {
  Projector projector{.file = std::move(file), .spec = {}, .owned = {}};
  ProjectorReader reader(*projector.file);
  if (auto read = read_spec(reader, projector.spec); !read) {
    return fail(std::move(read).error().context(projector.file->path()));
  }
  projector.owned = reader.take_owned();
  return projector;
}

}  // namespace tempo9::vision
