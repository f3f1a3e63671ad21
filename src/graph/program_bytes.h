// A program as bytes, and back. Format: docs/graph-format.md.
#pragma once

#include "base/byte_stream.h"
#include "base/result.h"
#include "tensor/program.h"

namespace tempo9::graph {

// The memory plan is left out: it follows from the rest.
void write_program(const tensor::Program& program, ByteWriter& out);

// From bytes that may be anything: whatever comes back keeps the rules that Builder keeps, so that backends may run it
// over weights of the declared shapes. Errors: kInvalidInput.
Result<tensor::Program> read_program(ByteReader& in);

}  // namespace tempo9::graph
