// A model file taken apart, so that a test can damage it before it is loaded.
#pragma once

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "models/model.h"

namespace tempo9 {

struct ModelFile {
  struct Tensor {
    std::string name;
    tensor::DType dtype;
    std::vector<int64_t> ne;
    std::vector<std::byte> data;
  };

  std::map<std::string, gguf::MetaValue> metadata;
  std::vector<Tensor> tensors;

  static ModelFile read(const std::string& path) {
    const auto file = gguf::File::open(path).value();
    ModelFile out;
    out.metadata.insert(file->metadata().entries().begin(), file->metadata().entries().end());
    for (const gguf::TensorInfo& info : file->tensors()) {
      const std::byte* data = file->view(info).data;
      out.tensors.push_back({.name = info.name,
                             .dtype = info.dtype,
                             .ne = {info.ne, info.ne + info.n_dims},
                             .data = {data, data + info.bytes}});
    }
    return out;
  }

  void set(const std::string& key, gguf::Scalar value) { metadata.insert_or_assign(key, std::move(value)); }
  void set(const std::string& key, gguf::Array value) { metadata.insert_or_assign(key, std::move(value)); }

  bool has(std::string_view name) const {
    return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  }
  Tensor& tensor(std::string_view name) {
    const auto it = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
    if (it == tensors.end()) throw std::runtime_error("no tensor " + std::string(name));
    return *it;
  }
  // Another shape or type; the data becomes zeros.
  void reshape(std::string_view name, std::vector<int64_t> ne, tensor::DType dtype) {
    Tensor& t = tensor(name);
    t.ne = std::move(ne);
    t.dtype = dtype;
    size_t bytes = tensor::row_bytes(dtype, t.ne[0]);
    for (size_t i = 1; i < t.ne.size(); ++i) bytes *= static_cast<size_t>(t.ne[i]);
    t.data.assign(bytes, std::byte{0});
  }
  void remove_tensor(std::string_view name) {
    std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
  }
  // One of F32 zeros.
  void add_tensor(const std::string& name, std::vector<int64_t> ne) {
    tensors.push_back({.name = name, .dtype = tensor::DType::kF32, .ne = {1}, .data = {}});
    reshape(name, std::move(ne), tensor::DType::kF32);
  }

  std::vector<std::byte> bytes() const {
    gguf::Writer writer;
    for (const auto& [key, value] : metadata) writer.add(key, value);
    for (const Tensor& t : tensors) writer.add_tensor(t.name, t.dtype, t.ne, t.data);
    return writer.bytes();
  }
  void write(const std::string& path) const {
    const std::vector<std::byte> content = bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  }

  // A loaded model whose file lies in `bytes`.
  struct Loaded {
    std::vector<std::byte> bytes;
    Result<models::Model> model;
  };
  Loaded load() const {
    std::vector<std::byte> content = bytes();
    auto file = gguf::File::parse(content, "test.gguf");
    if (!file) return {std::move(content), fail(std::move(file).error())};
    auto model = models::load_model(*std::move(file));
    return {std::move(content), std::move(model)};
  }
};

}  // namespace tempo9
