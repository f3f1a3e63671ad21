#include "gguf/writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/check.h"

namespace tempo9::gguf {
namespace {

void put_bytes(std::vector<std::byte>& out, const void* data, size_t n) {
  const size_t begin = out.size();
  out.resize(begin + n);
  if (n > 0) std::memcpy(out.data() + begin, data, n);
}

template <class T>
void put(std::vector<std::byte>& out, T value) {
  put_bytes(out, &value, sizeof value);
}

void put_string(std::vector<std::byte>& out, std::string_view text) {
  put(out, static_cast<uint64_t>(text.size()));
  put_bytes(out, text.data(), text.size());
}

void put_element(std::vector<std::byte>& out, const std::string& text) { put_string(out, text); }
void put_element(std::vector<std::byte>& out, bool value) { put(out, static_cast<uint8_t>(value)); }
template <class T>
void put_element(std::vector<std::byte>& out, T value) {
  put(out, value);
}

// The order of the variants' alternatives is the order of the type ids, arrays (9) left out.
uint32_t type_id(size_t variant_index) {
  return static_cast<uint32_t>(variant_index < 9 ? variant_index : variant_index + 1);
}

void put_value(std::vector<std::byte>& out, const MetaValue& value) {
  if (const auto* scalar = std::get_if<Scalar>(&value)) {
    put(out, type_id(scalar->index()));
    std::visit([&](const auto& x) { put_element(out, x); }, *scalar);
    return;
  }
  const auto& array = std::get<Array>(value);
  put(out, uint32_t{9});
  put(out, type_id(array.index()));
  std::visit(
      [&](const auto& elements) {
        put(out, static_cast<uint64_t>(elements.size()));
        for (const auto& x : elements) put_element(out, x);
      },
      array);
}

}  // namespace

void Writer::add(std::string key, MetaValue value) { pairs_.emplace_back(std::move(key), std::move(value)); }

void Writer::add_tensor(std::string name, tensor::DType dtype, std::vector<int64_t> ne, std::vector<std::byte> data) {
  T9_CHECK(!ne.empty() && ne.size() <= 4);
  size_t expected = tensor::row_bytes(dtype, ne[0]);
  for (size_t i = 1; i < ne.size(); ++i) expected *= static_cast<size_t>(ne[i]);
  T9_CHECK_MSG(data.size() == expected, name);
  tensors_.push_back({std::move(name), dtype, std::move(ne), std::move(data)});
}

std::vector<std::byte> Writer::bytes() const {
  std::vector<std::byte> out;
  const auto pad = [&](size_t size) { return (size + alignment_ - 1) / alignment_ * alignment_; };
  put_bytes(out, "GGUF", 4);
  put(out, uint32_t{3});
  put(out, static_cast<uint64_t>(tensors_.size()));
  put(out, static_cast<uint64_t>(pairs_.size()));
  for (const auto& [key, value] : pairs_) {
    put_string(out, key);
    put_value(out, value);
  }
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.ne.size()));
    for (const int64_t n : tensor.ne) put(out, static_cast<uint64_t>(n));
    put(out, static_cast<uint32_t>(tensor.dtype));
    put(out, offset);
    offset += pad(tensor.data.size());
  }
  for (const Tensor& tensor : tensors_) {
    out.resize(pad(out.size()));
    put_bytes(out, tensor.data.data(), tensor.data.size());
  }
  return out;
}

Result<void> Writer::write(const std::string& path) const {
  const std::string temporary = path + ".tmp";
  const std::vector<std::byte> data = bytes();
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) return fail(ErrorCode::kIo, fmt::format("{}: {}", temporary, std::strerror(errno)));
  const bool written = std::fwrite(data.data(), 1, data.size(), file) == data.size();
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(temporary.c_str());
    return fail(ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(reason)));
  }
  return {};
}

}  // namespace tempo9::gguf
