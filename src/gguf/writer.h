// Writes GGUF files: version 3, little-endian, tensors in data order with consecutive offsets (spec gguf section 6,
// writer rules). For tests, the benchmark's model generator and tools.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"

namespace tempo9::gguf {

class Writer {
 public:
  explicit Writer(uint32_t alignment = 32) : alignment_(alignment) {}

  // In the order given. REQUIRES: keys and names within the limits of the format and not used before.
  void add(std::string key, MetaValue value);
  // `ne` has 1 to 4 dimensions; `data` has exactly their bytes in `dtype` and is copied.
  void add_tensor(std::string name, tensor::DType dtype, std::vector<int64_t> ne, std::vector<std::byte> data);
  // A tensor of zeros, which takes no room in what `write` writes, whatever its size: the file has a hole there.
  void add_hole(std::string name, tensor::DType dtype, std::vector<int64_t> ne);

  // REQUIRES: no hole.
  std::vector<std::byte> bytes() const;
  // To a temporary name beside `path`, then renamed.
  Result<void> write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    tensor::DType dtype;
    std::vector<int64_t> ne;
    std::vector<std::byte> data;
    uint64_t size = 0;  // of the data, or of the hole
  };

  uint64_t pad(uint64_t size) const { return (size + alignment_ - 1) / alignment_ * alignment_; }
  // Everything before the first tensor's data, padding included.
  std::vector<std::byte> directory() const;

  uint32_t alignment_;
  std::vector<std::pair<std::string, MetaValue>> pairs_;
  std::vector<Tensor> tensors_;
};

}  // namespace tempo9::gguf
