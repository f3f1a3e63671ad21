#include "gguf/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "base/utf8.h"

namespace tempo9::gguf {
namespace {

using tensor::DTypeInfo;

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie");

std::unexpected<Error> invalid(std::string message) { return fail(ErrorCode::kInvalidInput, std::move(message)); }

bool checked_mul(uint64_t a, uint64_t b, uint64_t& out) { return !__builtin_mul_overflow(a, b, &out); }

// A printable form of a name taken from the file, for messages.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out += c >= 0x20 && c < 0x7F ? c : '?';
  return out;
}

bool is_printable_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x21 && c <= 0x7E; });
}

// Bytes from a position onwards. Reads never go past the end.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }

  template <class T>
  Result<T> read(std::string_view what) {
    if (remaining() < sizeof(T)) return truncated(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // S1, S2
  Result<std::string_view> read_string(std::string_view what) {
    T9_TRY(length, read<uint64_t>(what));
    if (length > kMaxStringBytes) {
      return invalid(fmt::format("{}: string of {} bytes is longer than {}", what, length, kMaxStringBytes));
    }
    if (length > remaining()) return truncated(what, length);
    const char* begin = reinterpret_cast<const char*>(bytes_.data() + position_);
    position_ += length;
    return std::string_view(begin, length);
  }

  std::unexpected<Error> truncated(std::string_view what, uint64_t wanted) const {
    return invalid(fmt::format("truncated: {} needs {} bytes at offset {}, the file ends at {}", what, wanted,
                               position_, bytes_.size()));
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

// H2. Says what a file is that is no GGUF file.
Result<uint32_t> read_version(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 64));
  if (text.starts_with("version https://git-lfs")) {
    return invalid("this is a Git LFS pointer, not the model; fetch the file itself (git lfs pull)");
  }
  if (text.starts_with("<")) return invalid("this is an HTML or XML page saved as a model, not a GGUF file");
  if (text.starts_with("{")) return invalid("this is a JSON text saved as a model, not a GGUF file");
  for (const std::string_view legacy : {"lmgg", "fmgg", "tjgg", "algg"}) {
    if (text.starts_with(legacy)) return invalid("legacy GGML file, not GGUF; reconvert the model");
  }
  constexpr std::string_view kBigEndian = "big-endian GGUF is not supported; convert to little-endian";
  if (text.starts_with("FUGG")) return invalid(std::string(kBigEndian));
  if (bytes.size() >= 4 && !text.starts_with("GGUF")) return invalid("not a GGUF file (the magic bytes are missing)");
  if (bytes.size() < 24) {
    return invalid(fmt::format("file too short for a GGUF header ({} bytes, 24 needed)", bytes.size()));
  }
  uint32_t version = 0;
  std::memcpy(&version, bytes.data() + 4, sizeof version);
  if (version == 0) return invalid("invalid GGUF version 0");
  if (version == 1) return invalid("GGUF version 1 is not supported; reconvert the model");
  if ((version & 0xFFFF) == 0) return invalid(std::string(kBigEndian));
  if (version > 3) return invalid(fmt::format("GGUF version {} is newer than supported (3)", version));
  return version;
}

// Ids of value types, spec gguf 1.2.
enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// A5: what all metadata may take in memory together.
class MemoryBudget {
 public:
  Result<void> take(uint64_t bytes) {
    used_ += bytes;
    if (used_ <= kMaxMetadataBytes) return {};
    return invalid(fmt::format("metadata needs more than {} bytes of memory", kMaxMetadataBytes));
  }

 private:
  uint64_t used_ = 0;
};

Result<bool> read_bool(Cursor& cursor, std::string_view what) {
  T9_TRY(byte, cursor.read<uint8_t>(what));
  if (byte > 1) return invalid(fmt::format("{}: bool byte is {}", what, byte));  // K3
  return byte == 1;
}

template <class T>
Result<Array> read_numbers(Cursor& cursor, uint64_t count, std::string_view what) {
  if (count > cursor.remaining() / sizeof(T)) {  // A2
    return invalid(
        fmt::format("truncated: {}: array of {} elements, {} bytes are left", what, count, cursor.remaining()));
  }
  std::vector<T> values(count);
  for (T& value : values) value = *cursor.read<T>(what);  // cannot fail: checked above
  return Array(std::move(values));
}

Result<Array> read_bools(Cursor& cursor, uint64_t count, std::string_view what) {
  if (count > cursor.remaining()) {
    return invalid(fmt::format("truncated: {}: array of {} bools, {} bytes are left", what, count, cursor.remaining()));
  }
  std::vector<bool> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    T9_TRY(value, read_bool(cursor, what));
    values[i] = value;
  }
  return Array(std::move(values));
}

Result<Array> read_strings(Cursor& cursor, uint64_t count, std::string_view what, MemoryBudget& budget) {
  if (count > cursor.remaining() / 8) {  // A3
    return invalid(
        fmt::format("truncated: {}: array of {} strings, {} bytes are left", what, count, cursor.remaining()));
  }
  T9_TRY_VOID(budget.take(count * sizeof(std::string)));
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    T9_TRY(text, cursor.read_string(what));
    T9_TRY_VOID(budget.take(text.size()));
    values.emplace_back(text);
  }
  return Array(std::move(values));
}

Result<Array> read_array(Cursor& cursor, std::string_view what, MemoryBudget& budget) {
  T9_TRY(type, cursor.read<uint32_t>(what));
  T9_TRY(count, cursor.read<uint64_t>(what));
  if (type == kArray) return invalid(fmt::format("{}: nested arrays are not supported", what));  // A1
  if (type > kF64) return invalid(fmt::format("{}: unknown array element type {}", what, type));
  if (count > kMaxArrayElements) {  // A4
    return invalid(fmt::format("{}: array of {} elements is longer than {}", what, count, kMaxArrayElements));
  }
  if (type != kString) T9_TRY_VOID(budget.take(count * 8));
  switch (type) {
    case kU8:
      return read_numbers<uint8_t>(cursor, count, what);
    case kI8:
      return read_numbers<int8_t>(cursor, count, what);
    case kU16:
      return read_numbers<uint16_t>(cursor, count, what);
    case kI16:
      return read_numbers<int16_t>(cursor, count, what);
    case kU32:
      return read_numbers<uint32_t>(cursor, count, what);
    case kI32:
      return read_numbers<int32_t>(cursor, count, what);
    case kF32:
      return read_numbers<float>(cursor, count, what);
    case kBool:
      return read_bools(cursor, count, what);
    case kString:
      return read_strings(cursor, count, what, budget);
    case kU64:
      return read_numbers<uint64_t>(cursor, count, what);
    case kI64:
      return read_numbers<int64_t>(cursor, count, what);
    default:
      return read_numbers<double>(cursor, count, what);
  }
}

template <class T>
Result<MetaValue> read_scalar(Cursor& cursor, std::string_view what) {
  T9_TRY(value, cursor.read<T>(what));
  return MetaValue(Scalar(value));
}

Result<MetaValue> read_value(Cursor& cursor, uint32_t type, std::string_view what, MemoryBudget& budget) {
  switch (type) {
    case kU8:
      return read_scalar<uint8_t>(cursor, what);
    case kI8:
      return read_scalar<int8_t>(cursor, what);
    case kU16:
      return read_scalar<uint16_t>(cursor, what);
    case kI16:
      return read_scalar<int16_t>(cursor, what);
    case kU32:
      return read_scalar<uint32_t>(cursor, what);
    case kI32:
      return read_scalar<int32_t>(cursor, what);
    case kF32:
      return read_scalar<float>(cursor, what);
    case kU64:
      return read_scalar<uint64_t>(cursor, what);
    case kI64:
      return read_scalar<int64_t>(cursor, what);
    case kF64:
      return read_scalar<double>(cursor, what);
    case kBool: {
      T9_TRY(value, read_bool(cursor, what));
      return MetaValue(Scalar(value));
    }
    case kString: {
      T9_TRY(text, cursor.read_string(what));
      T9_TRY_VOID(budget.take(text.size()));
      return MetaValue(Scalar(std::string(text)));
    }
    case kArray: {
      T9_TRY(array, read_array(cursor, what, budget));
      return MetaValue(std::move(array));
    }
    default:
      return invalid(fmt::format("{}: unknown value type {}", what, type));  // K2
  }
}

Result<void> read_pair(Cursor& cursor, Metadata& metadata, MemoryBudget& budget) {
  T9_TRY(key, cursor.read_string("metadata key"));
  if (key.empty() || key.size() > 65535 || !is_printable_ascii(key)) {  // S3
    return invalid(fmt::format("metadata key '{}' ({} bytes) is empty, too long or not printable ASCII", printable(key),
                               key.size()));
  }
  const std::string what = fmt::format("metadata {}", printable(key));
  T9_TRY(type, cursor.read<uint32_t>(what));
  T9_TRY(value, read_value(cursor, type, what, budget));
  return metadata.insert(std::string(key), std::move(value));  // K1
}

Result<uint64_t> read_alignment(const Metadata& metadata) {  // K4
  const MetaValue* value = metadata.find("general.alignment");
  if (!value) return kDefaultAlignment;
  const auto* scalar = std::get_if<Scalar>(value);
  const auto* alignment = scalar ? std::get_if<uint32_t>(scalar) : nullptr;
  if (!alignment) return invalid("metadata general.alignment: expected u32");
  if (!std::has_single_bit(*alignment) || *alignment < 8 || *alignment > 65536) {
    return invalid(fmt::format("metadata general.alignment: {} is not a power of two from 8 to 65536", *alignment));
  }
  return uint64_t{*alignment};
}

// T4: the type's entry, when it has a size; a type without one can't be bound-checked.
Result<const DTypeInfo*> sized_dtype(std::string_view name, uint32_t id) {
  const DTypeInfo* info = tensor::find_dtype(id);
  if (!info) {
    const std::string_view fork = tensor::fork_dtype_name(id);
    if (fork.empty()) {
      return fail(ErrorCode::kUnsupported, fmt::format("tensor {}: unknown type {}", name, id));
    }
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {}: uses type {} ({}), a fork-specific format; use a Q4_K_M or Q8_0 build", name,
                            id, fork));
  }
  if (info->state == tensor::DTypeState::kRemoved) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("tensor {}: type {} ({}) was removed from GGUF; use a Q4_0, Q4_K_M or Q8_0 build", name, id,
                            info->name));
  }
  return info;
}

// T5, T6
Result<uint64_t> tensor_bytes(const TensorInfo& tensor, const DTypeInfo& type) {
  if (tensor.ne[0] % type.block_elements != 0) {
    return invalid(fmt::format("tensor {}: row length {} is not a multiple of {}, the block of {}", tensor.name,
                               tensor.ne[0], type.block_elements, type.name));
  }
  uint64_t bytes = 0;
  bool fits = checked_mul(static_cast<uint64_t>(tensor.ne[0] / type.block_elements),
                          static_cast<uint64_t>(type.block_bytes), bytes);
  for (int i = 1; i < 4; ++i) fits = fits && checked_mul(bytes, static_cast<uint64_t>(tensor.ne[i]), bytes);
  if (!fits) return invalid(fmt::format("tensor {}: its size does not fit 64 bits", tensor.name));
  return bytes;
}

Result<TensorInfo> read_tensor_info(Cursor& cursor, uint64_t alignment) {
  T9_TRY(name, cursor.read_string("tensor name"));
  if (name.empty() || name.size() > 63 || !is_printable_ascii(name)) {  // S4
    return invalid(fmt::format("tensor name '{}' ({} bytes) is empty, longer than 63 bytes or not printable ASCII",
                               printable(name), name.size()));
  }
  TensorInfo tensor;
  tensor.name = name;
  const std::string what = fmt::format("tensor {}", name);
  T9_TRY(n_dims, cursor.read<uint32_t>(what));
  if (n_dims < 1 || n_dims > 4) return invalid(fmt::format("{}: has {} dimensions, not 1 to 4", what, n_dims));  // T1
  tensor.n_dims = static_cast<int>(n_dims);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < n_dims; ++i) {
    T9_TRY(n, cursor.read<uint64_t>(what));
    if (n < 1 || n >= (uint64_t{1} << 63) || !checked_mul(elements, n, elements) || elements >= (uint64_t{1} << 63)) {
      return invalid(fmt::format("{}: dimension {} is {}, zero or too large", what, i, n));  // T2, T3
    }
    tensor.ne[i] = static_cast<int64_t>(n);
  }
  T9_TRY(type_id, cursor.read<uint32_t>(what));
  T9_TRY(type, sized_dtype(name, type_id));
  tensor.dtype = type->dtype;
  T9_TRY(bytes, tensor_bytes(tensor, *type));
  tensor.bytes = bytes;
  T9_TRY(offset, cursor.read<uint64_t>(what));
  if (offset % alignment != 0) {  // T7
    return invalid(fmt::format("{}: offset {} is not a multiple of the alignment {}", what, offset, alignment));
  }
  tensor.offset = offset;
  return tensor;
}

// T8, T10: every tensor inside the file, no two over the same bytes. Turns offsets into file offsets.
Result<void> place_tensors(std::vector<TensorInfo>& tensors, uint64_t data_begin, uint64_t file_size) {
  if (tensors.empty()) return {};  // T11: a vocabulary without tensors needs no data section
  if (data_begin > file_size) {
    return invalid(fmt::format("truncated: tensor data begins at {}, the file ends at {}", data_begin, file_size));
  }
  const uint64_t data_bytes = file_size - data_begin;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      return invalid(fmt::format("truncated: tensor {}: {} bytes at offset {} are past the end of the data ({} bytes)",
                                 tensor.name, tensor.bytes, tensor.offset, data_bytes));
    }
    tensor.offset += data_begin;
  }
  std::vector<const TensorInfo*> by_offset;
  for (const TensorInfo& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo &before = *by_offset[i - 1], &after = *by_offset[i];
    if (before.offset + before.bytes > after.offset) {
      return invalid(fmt::format("tensors {} and {} overlap in the file", before.name, after.name));
    }
  }
  return {};
}

}  // namespace

Result<ParsedPart> parse_gguf(std::span<const std::byte> bytes) {
  ParsedPart part;
  T9_TRY(version, read_version(bytes));
  part.version = version;
  Cursor cursor(bytes.subspan(8));
  T9_TRY(n_tensors, cursor.read<uint64_t>("header"));
  T9_TRY(n_pairs, cursor.read<uint64_t>("header"));
  // The smallest pair has 14 bytes (H3), the smallest tensor record 33 (H4).
  if (n_pairs > kMaxPairs || n_pairs > cursor.remaining() / 14) {
    return invalid(fmt::format("declares {} metadata pairs, more than {} bytes can hold", n_pairs, cursor.remaining()));
  }
  if (n_tensors > kMaxTensors || n_tensors > cursor.remaining() / 33) {
    return invalid(fmt::format("declares {} tensors, more than {} bytes can hold", n_tensors, cursor.remaining()));
  }
  MemoryBudget budget;
  for (uint64_t i = 0; i < n_pairs; ++i) T9_TRY_VOID(read_pair(cursor, part.metadata, budget));
  T9_TRY(alignment, read_alignment(part.metadata));
  std::unordered_set<std::string_view> names;
  part.tensors.reserve(n_tensors);  // so that the views in `names` stay valid
  for (uint64_t i = 0; i < n_tensors; ++i) {
    T9_TRY(tensor, read_tensor_info(cursor, alignment));
    part.tensors.push_back(std::move(tensor));
    if (!names.insert(part.tensors.back().name).second) {  // T9
      return invalid(fmt::format("tensor {} occurs twice", part.tensors.back().name));
    }
  }
  const uint64_t infos_end = 8 + cursor.position();
  const uint64_t data_begin = (infos_end + alignment - 1) / alignment * alignment;
  T9_TRY_VOID(place_tensors(part.tensors, data_begin, bytes.size()));
  return part;
}

}  // namespace tempo9::gguf
