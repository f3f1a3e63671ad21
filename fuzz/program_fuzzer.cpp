// The reader of saved programs over arbitrary bytes: what it accepts keeps the rules, so it is written as it was read,
// and every value has a place.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "graph/program_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  tempo9::ByteReader in(bytes);
  const auto program = tempo9::graph::read_program(in);
  if (!program) return 0;
  tempo9::ByteWriter out;
  tempo9::graph::write_program(*program, out);
  const auto& written = out.data();
  if (written.size() > size || !std::equal(written.begin(), written.end(), bytes.begin())) std::abort();
  if (program->memory.slot_of_value.size() != program->values.size()) std::abort();
  return 0;
}
