#include "gguf/writer.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

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
  add_hole(std::move(name), dtype, std::move(ne));
  T9_CHECK_MSG(data.size() == tensors_.back().size, tensors_.back().name);
  tensors_.back().data = std::move(data);
}

void Writer::add_hole(std::string name, tensor::DType dtype, std::vector<int64_t> ne) {
  T9_CHECK(!ne.empty() && ne.size() <= 4);
  uint64_t size = tensor::row_bytes(dtype, ne[0]);
  for (size_t i = 1; i < ne.size(); ++i) size *= static_cast<uint64_t>(ne[i]);
  tensors_.push_back({std::move(name), dtype, std::move(ne), {}, size});
}

std::vector<std::byte> Writer::directory() const {
  std::vector<std::byte> out;
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
    offset += pad(tensor.size);
  }
  if (!tensors_.empty()) out.resize(pad(out.size()));
  return out;
}

std::vector<std::byte> Writer::bytes() const {
  std::vector<std::byte> out = directory();
  for (const Tensor& tensor : tensors_) {
    T9_CHECK_MSG(tensor.data.size() == tensor.size, tensor.name);
    out.resize(pad(out.size()));
    put_bytes(out, tensor.data.data(), tensor.data.size());
  }
  return out;
}

Result<void> Writer::write(const std::string& path) const {
  const std::string temporary = path + ".tmp";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  const std::vector<std::byte> head = directory();
  const auto put_at = [&file](uint64_t offset, const std::vector<std::byte>& data) {
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  };
  put_at(0, head);
  uint64_t end = head.size();
  for (const Tensor& tensor : tensors_) {
    put_at(pad(end), tensor.data);
    end = pad(end) + tensor.size;
  }
  file.close();
  std::error_code error;
  if (file) std::filesystem::resize_file(temporary, end, error);  // a hole may be the last
  if (file && !error) std::filesystem::rename(temporary, path, error);
  if (file && !error) return {};
  std::error_code ignored;
  std::filesystem::remove(temporary, ignored);
  return fail(ErrorCode::kIo, fmt::format("{}: {}", path, error ? error.message() : "cannot be written"));
}

}  // namespace tempo9::gguf
