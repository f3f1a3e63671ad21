// The GGUF reader over arbitrary bytes: it answers with a file or an error, and every tensor it names lies inside.
#include <cstdint>
#include <cstdlib>

#include "gguf/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = tempo9::gguf::File::parse(bytes, "fuzz");
  if (!file) return 0;
  for (const auto& tensor : (*file)->tensors()) {
    const auto view = (*file)->view(tensor);
    if (view.data < bytes.data() || view.data + view.size_bytes() > bytes.data() + size) std::abort();
  }
  return 0;
}
