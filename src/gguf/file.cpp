#include "gguf/file.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/check.h"
#include "gguf/reader.h"

namespace tempo9::gguf {
namespace {

// Parts a split model may have; checked before any sibling is opened.
constexpr int64_t kMaxParts = 1024;

struct SplitInfo {
  int64_t number = 0;
  int64_t count = 1;
  int64_t n_tensors = -1;  // over all parts; -1 when not stated
};

Result<SplitInfo> read_split(const Metadata& metadata) {
  SplitInfo split;
  T9_TRY(count, metadata.find_int("split.count"));
  if (!count || *count <= 1) return split;
  split.count = *count;
  if (split.count > kMaxParts) {
    return fail(ErrorCode::kInvalidInput, fmt::format("split.count {} is more than {}", split.count, kMaxParts));
  }
  T9_TRY(number, metadata.read_int("split.no"));
  T9_TRY(total, metadata.find_int("split.tensors.count"));
  split.number = number;
  if (total) split.n_tensors = *total;
  return split;
}

std::string part_suffix(int64_t index, int64_t count) { return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count); }

}  // namespace

Result<void> File::parse_part(int index, bool is_first) {
  T9_TRY(parsed, parse_gguf(parts_[static_cast<size_t>(index)].bytes));
  if (is_first) {
    version_ = parsed.version;
    metadata_ = std::move(parsed.metadata);
  } else {
    T9_TRY(split, read_split(parsed.metadata));
    T9_TRY(whole, read_split(metadata_));
    if (split.number != index || split.count != whole.count) {
      return fail(ErrorCode::kInvalidInput, fmt::format("says it is part {} of {}, expected part {} of {}",
                                                        split.number + 1, split.count, index + 1, whole.count));
    }
  }
  for (TensorInfo& tensor : parsed.tensors) {
    tensor.part = index;
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return fail(ErrorCode::kInvalidInput, fmt::format("tensor {} occurs in two parts", tensor.name));
    }
    tensors_.push_back(std::move(tensor));
  }
  return {};
}

Result<std::unique_ptr<File>> File::parse(std::span<const std::byte> bytes, std::string name) {
  std::unique_ptr<File> file(new File);
  file->path_ = std::move(name);
  file->parts_.push_back({std::nullopt, bytes});
  if (auto parsed = file->parse_part(0, true); !parsed) return fail(std::move(parsed).error().context(file->path_));
  return file;
}

Result<std::unique_ptr<File>> File::open(const std::string& path, const OpenOptions& options) {
  const auto add_part = [](File& file, const std::string& part_path, bool is_first) -> Result<void> {
    T9_TRY(mapping, MappedFile::open(part_path));
    const auto bytes = mapping.bytes();
    file.parts_.push_back({std::move(mapping), bytes});
    if (auto parsed = file.parse_part(file.n_parts() - 1, is_first); !parsed) {
      return fail(std::move(parsed).error().context(part_path));
    }
    return {};
  };

  std::unique_ptr<File> file(new File);
  file->path_ = path;
  T9_TRY_VOID(add_part(*file, path, true));
  T9_TRY(split, read_split(file->metadata_));
  if (split.count <= 1 || !options.load_parts) return file;

  // Siblings are found by name, in the opened file's own folder; nothing from the metadata goes into a path.
  const std::filesystem::path opened(path);
  const std::string name = opened.filename().string();
  const std::string suffix = part_suffix(split.number, split.count);
  if (!name.ends_with(suffix)) {
    return fail(ErrorCode::kInvalidInput,
                fmt::format("{}: part {} of {} must be named PREFIX{}", path, split.number + 1, split.count, suffix));
  }
  const std::string prefix = name.substr(0, name.size() - suffix.size());
  const auto sibling = [&](int64_t i) {
    return (opened.parent_path() / (prefix + part_suffix(i, split.count))).string();
  };
  if (split.number != 0) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: is part {} of {}; open the first part, {}", path,
                                                      split.number + 1, split.count, sibling(0)));
  }
  for (int64_t i = 1; i < split.count; ++i) T9_TRY_VOID(add_part(*file, sibling(i), false));
  if (split.n_tensors >= 0 && split.n_tensors != static_cast<int64_t>(file->tensors_.size())) {
    return fail(ErrorCode::kInvalidInput, fmt::format("{}: the parts hold {} tensors, split.tensors.count says {}",
                                                      path, file->tensors_.size(), split.n_tensors));
  }
  return file;
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

tensor::WeightView File::view(const TensorInfo& info) const {
  T9_CHECK(info.part >= 0 && info.part < n_parts());
  const auto bytes = parts_[static_cast<size_t>(info.part)].bytes;
  T9_CHECK(info.offset <= bytes.size() && info.bytes <= bytes.size() - info.offset);
  tensor::WeightView view;
  view.dtype = info.dtype;
  view.cols = info.ne[0];
  view.rows = info.ne[1];
  view.depth = info.ne[2] * info.ne[3];
  view.data = bytes.data() + info.offset;
  view.row_bytes = tensor::row_bytes(info.dtype, info.ne[0]);
  view.is_mapped = parts_[static_cast<size_t>(info.part)].mapping.has_value();
  return view;
}

uint64_t File::size_bytes() const {
  uint64_t total = 0;
  for (const Part& part : parts_) total += part.bytes.size();
  return total;
}

int64_t File::modified_ns() const { return parts_[0].mapping ? parts_[0].mapping->modified_ns() : 0; }

}  // namespace tempo9::gguf
