#include "graph/program_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "graph/builder.h"
#include "graph/shapes.h"
#include "tensor/op_fields.h"

namespace tempo9::graph {
namespace {

using tensor::kNone;
using tensor::Op;
using tensor::Program;

// --- Writing
class FieldWriter {
 public:
  explicit FieldWriter(ByteWriter& out) : out_(out) {}

  void input(tensor::ValueId id) { out_.number(id); }
  void output(tensor::ValueId id) { out_.number(id); }
  void weight(tensor::WeightId id) { out_.number(id); }
  void frequencies(int32_t index) { out_.number(index); }
  void axes(int32_t index) { out_.number(index); }
  void kv_layer(int32_t index) { out_.number(index); }
  void state_layer(int32_t index) { out_.number(index); }
  void plain(Number auto x) { out_.number(x); }
  void plain(tensor::Activation x) { out_.number(std::to_underlying(x)); }
  void plain(tensor::RopePairs x) { out_.number(std::to_underlying(x)); }

 private:
  ByteWriter& out_;
};

template <class T, class F>
void write_list(ByteWriter& out, const std::vector<T>& list, F write_element) {
  out.number(static_cast<uint32_t>(list.size()));
  for (const T& element : list) write_element(element);
}

// --- Reading
class FieldReader {
 public:
  explicit FieldReader(ByteReader& in) : in_(in) {}

  void input(tensor::ValueId& id) { plain(id); }
  void output(tensor::ValueId& id) { plain(id); }
  void weight(tensor::WeightId& id) { plain(id); }
  void frequencies(int32_t& index) { plain(index); }
  void axes(int32_t& index) { plain(index); }
  void kv_layer(int32_t& index) { plain(index); }
  void state_layer(int32_t& index) { plain(index); }
  template <Number T>
  void plain(T& x) {
    x = in_.number<T>();
  }
  void plain(tensor::Activation& x) { enumerator(x, tensor::Activation::kClampedSwiglu); }
  void plain(tensor::RopePairs& x) { enumerator(x, tensor::RopePairs::kHalves); }

  bool has_bad_enumerator() const { return has_bad_enumerator_; }

 private:
  template <class E>
  void enumerator(E& x, E last) {
    const auto number = in_.number<std::underlying_type_t<E>>();
    if (number > std::to_underlying(last)) {
      has_bad_enumerator_ = true;
      return;
    }
    x = static_cast<E>(number);
  }

  ByteReader& in_;
  bool has_bad_enumerator_ = false;
};

// A default op of the kind that has the index.
template <size_t kIndex = 0>
Result<Op> make_op(size_t index) {
  if constexpr (kIndex == std::variant_size_v<Op>) {
    return fail(ErrorCode::kInvalidInput, fmt::format("op {} of {} kinds", index, std::variant_size_v<Op>));
  } else {
    if (index == kIndex) return Op(std::in_place_index<kIndex>);
    return make_op<kIndex + 1>(index);
  }
}

Result<Op> read_op(ByteReader& in) {
  T9_TRY(op, make_op(in.number<uint8_t>()));
  FieldReader fields(in);
  std::visit([&](auto& o) { tensor::visit_fields(o, fields); }, op);
  if (fields.has_bad_enumerator()) return fail(ErrorCode::kInvalidInput, "an unknown enumerator");
  return op;
}

tensor::WeightSpec read_weight(ByteReader& in) {
  tensor::WeightSpec weight;
  weight.name = in.text();
  weight.dtype = static_cast<tensor::DType>(in.number<uint32_t>());
  weight.cols = in.number<int64_t>();
  weight.rows = in.number<int64_t>();
  weight.depth = in.number<int64_t>();
  return weight;
}

Result<void> read_weights(ByteReader& in, Program& program) {
  const size_t n_weights = in.count(sizeof(uint32_t));
  for (size_t i = 0; i < n_weights; ++i) {
    program.weights.push_back(read_weight(in));
    T9_TRY_VOID(in.status());
    const tensor::WeightSpec& weight = program.weights.back();
    const tensor::DTypeInfo* dtype = tensor::find_dtype(static_cast<uint32_t>(weight.dtype));
    if (!dtype || dtype->state != tensor::DTypeState::kUsable) {
      return fail(ErrorCode::kInvalidInput, fmt::format("weight {}: type {}", i, std::to_underlying(weight.dtype)));
    }
    T9_TRY_VOID(check_weight(weight));
  }
  return {};
}

Result<void> read_layers(ByteReader& in, Program& program) {
  const size_t n_kv_layers = in.count(4 * sizeof(int64_t));
  for (size_t i = 0; i < n_kv_layers; ++i) {
    tensor::KvLayerSpec layer;
    for (int64_t* field : {&layer.n_kv_heads, &layer.k_head_dim, &layer.v_head_dim, &layer.window}) {
      *field = in.number<int64_t>();
    }
    T9_TRY_VOID(check_kv_layer(layer));
    program.kv_layers.push_back(layer);
  }
  const size_t n_state_layers = in.count(2 * sizeof(int64_t));
  for (size_t i = 0; i < n_state_layers; ++i) {
    tensor::StateLayerSpec layer;
    layer.conv_floats = in.number<int64_t>();
    layer.delta_floats = in.number<int64_t>();
    T9_TRY_VOID(check_state_layer(layer));
    program.state_layers.push_back(layer);
  }
  return in.status();
}

Result<void> read_tables(ByteReader& in, Program& program) {
  const size_t n_frequencies = in.count(sizeof(uint32_t));
  for (size_t i = 0; i < n_frequencies; ++i) program.rope_frequencies.push_back(in.numbers<float>());
  const size_t n_axes = in.count(sizeof(uint32_t));
  for (size_t i = 0; i < n_axes; ++i) {
    program.rope_axes.push_back(in.numbers<uint8_t>());
    if (std::ranges::any_of(program.rope_axes.back(), [](uint8_t axis) { return axis > 2; })) {
      return fail(ErrorCode::kInvalidInput, "a position plane above 2");
    }
  }
  return in.status();
}

// The id of the value that an op makes; kNone for those that make none.
struct Output {
  tensor::ValueId operator()(const tensor::KvWrite&) const { return kNone; }
  tensor::ValueId operator()(const auto& op) const { return op.out; }
};

// Ops come with the name of the value that each makes. Values are numbered in the order in which they are made, so
// whatever an op may read is written by then.
Result<void> read_ops(ByteReader& in, Program& program) {
  std::vector<bool> is_written(program.kv_layers.size(), false);
  const size_t n_ops = in.count(1);
  for (size_t i = 0; i < n_ops; ++i) {
    T9_TRY(op, read_op(in));
    T9_TRY_VOID(in.status());
    T9_TRY(shape, output_shape(program, op));
    if (const auto* write = std::get_if<tensor::KvWrite>(&op)) is_written[static_cast<size_t>(write->kv_layer)] = true;
    if (const auto* attention = std::get_if<tensor::Attention>(&op)) {
      if (!is_written[static_cast<size_t>(attention->kv_layer)]) {
        return fail(ErrorCode::kInvalidInput, fmt::format("KV layer {} is read unwritten", attention->kv_layer));
      }
    }
    if (shape.cols > 0) {
      if (std::visit(Output{}, op) != std::ssize(program.values)) {
        return fail(ErrorCode::kInvalidInput, fmt::format("op {} does not make the next value", i));
      }
      program.values.push_back({.name = in.text(), .cols = shape.cols, .rows = shape.rows});
    }
    program.ops.push_back(std::move(op));
  }
  return in.status();
}

Result<void> check_results(const Program& program) {
  const auto is_value = [&](tensor::ValueId id) { return id >= 0 && id < std::ssize(program.values); };
  if (!is_value(program.logits) ||
      program.values[static_cast<size_t>(program.logits)].rows != tensor::RowSet::kOutputs) {
    return fail(ErrorCode::kInvalidInput, fmt::format("value {} as logits", program.logits));
  }
  if (program.hidden != kNone && !is_value(program.hidden)) {
    return fail(ErrorCode::kInvalidInput, fmt::format("value {} as hidden state", program.hidden));
  }
  // Tokens are checked against the logits' columns, and looked up in tables.
  const int64_t n_logits = program.values[static_cast<size_t>(program.logits)].cols;
  for (const Op& op : program.ops) {
    const auto* embed = std::get_if<tensor::Embed>(&op);
    if (embed && program.weights[static_cast<size_t>(embed->table)].rows < n_logits) {
      return fail(ErrorCode::kInvalidInput, "a table with fewer rows than there are logits");
    }
  }
  return {};
}

}  // namespace

void write_program(const Program& program, ByteWriter& out) {
  write_list(out, program.weights, [&](const tensor::WeightSpec& weight) {
    out.text(weight.name);
    out.number(std::to_underlying(weight.dtype));
    for (const int64_t size : {weight.cols, weight.rows, weight.depth}) out.number(size);
  });
  write_list(out, program.kv_layers, [&](const tensor::KvLayerSpec& layer) {
    for (const int64_t x : {layer.n_kv_heads, layer.k_head_dim, layer.v_head_dim, layer.window}) out.number(x);
  });
  write_list(out, program.state_layers, [&](const tensor::StateLayerSpec& layer) {
    for (const int64_t x : {layer.conv_floats, layer.delta_floats}) out.number(x);
  });
  write_list(out, program.rope_frequencies, [&](const std::vector<float>& table) { out.numbers(table); });
  write_list(out, program.rope_axes, [&](const std::vector<uint8_t>& table) { out.numbers(table); });
  FieldWriter fields(out);
  write_list(out, program.ops, [&](const Op& op) {
    out.number(static_cast<uint8_t>(op.index()));
    std::visit([&](const auto& o) { tensor::visit_fields(o, fields); }, op);
    const tensor::ValueId made = std::visit(Output{}, op);
    if (made != kNone) out.text(program.values[static_cast<size_t>(made)].name);
  });
  out.number(program.logits);
  out.number(program.hidden);
}

Result<Program> read_program(ByteReader& in) {
  Program program;
  T9_TRY_VOID(read_weights(in, program));
  T9_TRY_VOID(read_layers(in, program));
  T9_TRY_VOID(read_tables(in, program));
  T9_TRY_VOID(read_ops(in, program));
  program.logits = in.number<tensor::ValueId>();
  program.hidden = in.number<tensor::ValueId>();
  T9_TRY_VOID(in.status());
  T9_TRY_VOID(check_results(program));
  program.memory = plan_memory(program);
  return program;
}

}  // namespace tempo9::graph
