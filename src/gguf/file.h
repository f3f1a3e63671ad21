// Reading a GGUF model file: metadata, tensor directory, mapped bytes. Knows no model. Format: spec gguf section 1,
// which is https://github.com/ggml-org/ggml/blob/master/docs/gguf.md with the limits that hostile files ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "tensor/views.h"

namespace tempo9::gguf {

// One metadata value. Numbers keep the width they are stored in; use Metadata's readers, which convert with checks.
// Strings are counted bytes: they may hold NUL and ill-formed UTF-8.
using Scalar = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool, std::string, uint64_t,
                            int64_t, double>;
using Array = std::variant<std::vector<uint8_t>, std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                           std::vector<uint32_t>, std::vector<int32_t>, std::vector<float>, std::vector<bool>,
                           std::vector<std::string>, std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>>;
using MetaValue = std::variant<Scalar, Array>;

// Key/value pairs. Integer readers accept every integer width and refuse what does not fit; float readers accept
// integers too. Errors name the key, the stored type and the value: kNotFound when absent, kInvalidInput otherwise.
// The find_… forms give an empty optional when the key is absent, and still an error when it is there but wrong.
class Metadata {
 public:
  bool contains(std::string_view key) const;
  const MetaValue* find(std::string_view key) const;

  Result<int64_t> read_int(std::string_view key) const;
  Result<double> read_float(std::string_view key) const;
  Result<bool> read_bool(std::string_view key) const;
  Result<std::string> read_string(std::string_view key) const;
  Result<std::optional<int64_t>> find_int(std::string_view key) const;
  Result<std::optional<double>> find_float(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string>> find_string(std::string_view key) const;

  // Views into this object, valid while it lives. kNotFound when absent, kInvalidInput for another element type.
  Result<std::span<const std::string>> read_strings(std::string_view key) const;
  // Any integer (or, for read_floats, number) element type, converted with checks.
  Result<std::vector<int64_t>> read_ints(std::string_view key) const;
  Result<std::vector<double>> read_floats(std::string_view key) const;
  Result<std::vector<bool>> read_bools(std::string_view key) const;
  // A scalar, repeated `count` times, or an array of exactly `count` elements. Empty optional when absent.
  Result<std::optional<std::vector<int64_t>>> find_int_per_layer(std::string_view key, int64_t count) const;

  // In ascending order of keys.
  const std::map<std::string, MetaValue, std::less<>>& entries() const { return entries_; }
  // Test and reader only. Errors: kInvalidInput on a duplicate.
  Result<void> insert(std::string key, MetaValue value);

 private:
  std::map<std::string, MetaValue, std::less<>> entries_;
};

struct TensorInfo {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  int64_t ne[4] = {1, 1, 1, 1};  // ne[0] is the row length
  int n_dims = 0;
  uint64_t offset = 0;  // from the start of the file that holds it
  uint64_t bytes = 0;
  int part = 0;  // index of the file, for split models

  int64_t elements() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
};

struct OpenOptions {
  // Follow split.count to the sibling files. Off for tools that look at one part.
  bool load_parts = true;
};

// An opened and fully checked model file (all parts of it). Views stay valid while the object lives. Immutable, so
// any thread may read.
class File {
 public:
  static Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options = {});
  // From memory, for tests and the fuzzer; `bytes` must outlive the object.
  static Result<std::unique_ptr<File>> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  const Metadata& metadata() const { return metadata_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find_tensor(std::string_view name) const;  // null when absent
  // The mapped bytes of a tensor, as a weight. REQUIRES: `info` belongs to this file and is usable or plain.
  tensor::WeightView view(const TensorInfo& info) const;
  // Total over all parts.
  uint64_t size_bytes() const;
  int64_t modified_ns() const;
  int n_parts() const { return static_cast<int>(parts_.size()); }

 private:
  struct Part {
    std::optional<MappedFile> mapping;  // empty when parsed from memory
    std::span<const std::byte> bytes;
  };

  File() = default;
  Result<void> parse_part(int index, bool is_first);

  std::string path_;
  uint32_t version_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
  std::vector<Part> parts_;
};

}  // namespace tempo9::gguf
