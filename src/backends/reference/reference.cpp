// Runs a program op by op on kernels/reference.
#include "backends/reference/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "kernels/reference/reference.h"
#include "quant/quant.h"

namespace tempo9::backends {
namespace {

namespace kernels = tempo9::kernels::reference;

using tensor::kNone;
using tensor::MatView;
using tensor::Program;
using tensor::ValueId;
using tensor::WeightId;
using tensor::WeightView;

// Norm weights, biases and sinks as floats.
std::vector<float> decode_vector(const WeightView& weight) {
  std::vector<float> values(static_cast<size_t>(weight.elements()));
  quant::find_type(weight.dtype)->decode(weight.data, values.data(), weight.elements());
  return values;
}

// What an executable holds. Slots are reserved for the largest batch and cost what the batches seen so far have used.
struct Bound {
  Program program;
  std::vector<WeightView> weights;
  CompileOptions options;
  std::vector<Buffer> slots;
};

// A layer with a state, and what it read of the last pass's rows.
struct RecurrentLayer {
  const tensor::CausalConv* conv = nullptr;
  const tensor::DeltaNet* net = nullptr;
  std::vector<float> x;  // of the convolution
  std::vector<float> qkv, beta, alpha;
};

std::vector<RecurrentLayer> find_recurrent_layers(const Program& program) {
  std::vector<RecurrentLayer> layers(program.state_layers.size());
  for (const tensor::Op& op : program.ops) {
    if (const auto* conv = std::get_if<tensor::CausalConv>(&op)) {
      layers[static_cast<size_t>(conv->state_layer)].conv = conv;
    } else if (const auto* net = std::get_if<tensor::DeltaNet>(&op)) {
      layers[static_cast<size_t>(net->state_layer)].net = net;
    }
  }
  return layers;
}

// One run: an overload per op, which computes it and gives the value that it made (kNone for those that make none).
class Pass {
 public:
  Pass(Bound& bound, const tensor::Batch& batch, const RunOutputs& outputs)
      : bound_(bound), batch_(batch), outputs_(outputs) {}

  // The rows of a value; its memory is its slot, or the caller's for the results.
  MatView<float> view(ValueId id) const {
    const tensor::Value& value = bound_.program.values[static_cast<size_t>(id)];
    const int64_t rows = value.rows == tensor::RowSet::kBatch ? batch_.n_rows() : batch_.n_outputs();
    const Program& program = bound_.program;
    if (id == program.logits) return {outputs_.logits.data, rows, value.cols, outputs_.logits.stride};
    if (id == program.hidden && outputs_.hidden.data != nullptr) {
      return {outputs_.hidden.data, rows, value.cols, outputs_.hidden.stride};
    }
    const int32_t slot = program.memory.slot_of_value[static_cast<size_t>(id)];
    Buffer& memory = bound_.slots[static_cast<size_t>(slot)];
    return {reinterpret_cast<float*>(memory.data()), rows, value.cols, value.cols};
  }

  ValueId operator()(const tensor::Embed& op) const {
    const MatView<float> out = view(op.out);
    kernels::embed(op, weight(op.table), batch_.tokens, out);
    for (int64_t i = 0; i < out.rows; ++i) {
      if (const float* embedding = batch_.embedding(i)) std::copy_n(embedding, out.cols, out.row(i));
    }
    return op.out;
  }
  ValueId operator()(const tensor::RmsNorm& op) const {
    kernels::rms_norm(op, vector(op.weight), view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::MatMul& op) const {
    kernels::matmul(weight(op.weight), vector(op.bias), view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::Add& op) const {
    kernels::add(view(op.a), view(op.b), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::Rope& op) const {
    const std::vector<float>& frequencies = bound_.program.rope_frequencies[static_cast<size_t>(op.frequencies)];
    std::span<const uint8_t> axes;
    if (op.axes != kNone) axes = bound_.program.rope_axes[static_cast<size_t>(op.axes)];
    kernels::rope(op, frequencies, axes, batch_.positions, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::KvWrite& op) const {
    kernels::kv_write(op, kv_layer(op.kv_layer), batch_, view(op.k), view(op.v));
    return kNone;
  }
  ValueId operator()(const tensor::Attention& op) const {
    kernels::attention(op, kv_layer(op.kv_layer), vector(op.sinks), batch_, view(op.q), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::GatedActivation& op) const {
    kernels::gated_activation(op.activation, view(op.gate), view(op.up), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::SelectOutputs& op) const {
    kernels::select_rows(batch_.outputs, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::SoftCap& op) const {
    kernels::soft_cap(op.cap, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::Scale& op) const {
    const float by = op.by == kNone ? 1.0f : vector(op.by)[0];
    kernels::scale(op.factor * by, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::TakeColumns& op) const {
    kernels::take_columns(op, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::Concat& op) const {
    kernels::concat(view(op.a), view(op.b), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::GateRows& op) const {
    kernels::gate_rows(view(op.gate), view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::PositionScale& op) const {
    kernels::position_scale(op, batch_.positions, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::Experts& op) const {
    const std::vector<float> gate_bias = vector(op.gate_bias), up_bias = vector(op.up_bias);
    const std::vector<float> down_bias = vector(op.down_bias), scale = vector(op.expert_scale);
    const kernels::ExpertWeights weights = {.gate = weight(op.gate),
                                            .up = op.up == kNone ? nullptr : &weight(op.up),
                                            .down = weight(op.down),
                                            .gate_bias = gate_bias,
                                            .up_bias = up_bias,
                                            .down_bias = down_bias,
                                            .expert_scale = scale};
    kernels::experts(op, weights, view(op.x), view(op.router), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::CausalConv& op) const {
    kernels::causal_conv(op, vector(op.weight), weight(op.weight).cols, batch_, view(op.x), view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::DeltaNet& op) const {
    const std::vector<float> a = vector(op.a), dt = vector(op.dt);
    const kernels::DeltaNetInputs in = {
        .qkv = view(op.qkv), .beta = view(op.beta), .alpha = view(op.alpha), .a = a, .dt = dt};
    kernels::delta_net(op, bound_.program.state_layers[static_cast<size_t>(op.state_layer)], in, batch_, view(op.out));
    return op.out;
  }
  ValueId operator()(const tensor::Input& op) const {
    const MatView<float> out = view(op.out);
    for (int64_t i = 0; i < out.rows; ++i) std::copy_n(batch_.hidden.row(i), out.cols, out.row(i));
    return op.out;
  }
  ValueId operator()(const tensor::AddEmbedding& op) const {
    const MatView<float> x = view(op.x), out = view(op.out);
    for (int64_t i = 0; i < out.rows; ++i) {
      std::copy_n(x.row(i), out.cols, out.row(i));
      const float* embedding = batch_.embedding(i);
      for (int64_t c = 0; embedding != nullptr && c < out.cols; ++c) out.row(i)[c] += embedding[op.begin + c];
    }
    return op.out;
  }

 private:
  const WeightView& weight(WeightId id) const { return bound_.weights[static_cast<size_t>(id)]; }
  std::vector<float> vector(WeightId id) const {
    return id == kNone ? std::vector<float>() : decode_vector(weight(id));
  }
  const tensor::KvLayerSpec& kv_layer(int32_t index) const {
    return bound_.program.kv_layers[static_cast<size_t>(index)];
  }

  Bound& bound_;
  const tensor::Batch& batch_;
  RunOutputs outputs_;
};

class ReferenceExecutable final : public Executable {
 public:
  explicit ReferenceExecutable(Bound bound)
      : bound_(std::move(bound)), recurrent_(find_recurrent_layers(bound_.program)) {}

  void run(const tensor::Batch& batch, const RunOutputs& outputs, const Observer* observer) override {
    const Pass pass = open_pass(batch, outputs);
    begin_trial(batch);
    for (const tensor::Op& op : bound_.program.ops) {
      const ValueId made = std::visit(pass, op);
      if (bound_.options.max_trial_rows > 0) keep_rows(op, pass);
      if (observer != nullptr && made != kNone) (*observer)(made, pass.view(made));
    }
  }

  int64_t begin_parts(const tensor::Batch&) override { return std::ssize(bound_.program.ops); }
  void run_part(const tensor::Batch& batch, const RunOutputs& outputs, int64_t part) override {
    std::visit(open_pass(batch, outputs), bound_.program.ops[static_cast<size_t>(part)]);
  }

  void replay(const tensor::StateView& states, std::span<const int64_t> n_rows) override {
    std::vector<int64_t> rows;  // of the last pass
    std::vector<int32_t> sequences;
    std::vector<int64_t> n_taken(n_rows.size(), 0);
    for (size_t r = 0; r < sequences_.size(); ++r) {
      const auto s = static_cast<size_t>(sequences_[r]);
      if (n_taken[s] == n_rows[s]) continue;
      ++n_taken[s];
      rows.push_back(static_cast<int64_t>(r));
      sequences.push_back(sequences_[r]);
    }
    const tensor::Batch batch{.sequences = sequences, .states = states};
    for (const RecurrentLayer& layer : recurrent_) replay_layer(layer, rows, batch);
  }

 private:
  Pass open_pass(const tensor::Batch& batch, const RunOutputs& outputs) {
    T9_CHECK(batch.n_rows() <= bound_.options.max_rows);
    T9_CHECK(batch.n_outputs() <= bound_.options.max_outputs);
    T9_CHECK(outputs.logits.rows >= batch.n_outputs());
    return Pass(bound_, batch, outputs);
  }

  void begin_trial(const tensor::Batch& batch) {
    sequences_.assign(batch.sequences.begin(), batch.sequences.end());
    for (int32_t s = 0; s < batch.states.n_sequences; ++s) {
      if (!batch.states.is_on_trial(s)) continue;
      for (int32_t l = 0; l < std::ssize(bound_.program.state_layers); ++l) {
        const int64_t n_floats = bound_.program.state_layers[static_cast<size_t>(l)].floats();
        std::copy_n(batch.states.state_before(l, s), n_floats, batch.states.state(l, s));
      }
    }
  }

  // All rows of the pass, on trial or not.
  void keep_rows(const tensor::Op& op, const Pass& pass) {
    const auto keep = [&](ValueId id, std::vector<float>& values) {
      const MatView<float> view = pass.view(id);
      values.assign(view.data, view.data + view.rows * view.cols);
    };
    if (const auto* conv = std::get_if<tensor::CausalConv>(&op)) {
      keep(conv->x, recurrent_[static_cast<size_t>(conv->state_layer)].x);
    } else if (const auto* net = std::get_if<tensor::DeltaNet>(&op)) {
      RecurrentLayer& layer = recurrent_[static_cast<size_t>(net->state_layer)];
      keep(net->qkv, layer.qkv);
      keep(net->beta, layer.beta);
      keep(net->alpha, layer.alpha);
    }
  }

  // Some rows of a kept matrix, side by side.
  struct Picked {
    Picked(std::span<const float> values, std::span<const int64_t> rows, int64_t n_cols) : cols(n_cols) {
      for (const int64_t r : rows) {
        const auto row = values.subspan(static_cast<size_t>(r * cols), static_cast<size_t>(cols));
        data.insert(data.end(), row.begin(), row.end());
      }
    }
    MatView<float> view() { return {data.data(), std::ssize(data) / cols, cols, cols}; }

    int64_t cols;
    std::vector<float> data;
  };

  void replay_layer(const RecurrentLayer& layer, std::span<const int64_t> rows, const tensor::Batch& batch) const {
    const auto cols = [this](ValueId id) { return bound_.program.values[static_cast<size_t>(id)].cols; };
    const auto vector = [this](WeightId id) { return decode_vector(bound_.weights[static_cast<size_t>(id)]); };
    const WeightView& taps = bound_.weights[static_cast<size_t>(layer.conv->weight)];
    Picked x(layer.x, rows, cols(layer.conv->x)), unused = x;
    kernels::causal_conv(*layer.conv, decode_vector(taps), taps.cols, batch, x.view(), unused.view());
    const std::vector<float> a = vector(layer.net->a), dt = vector(layer.net->dt);
    Picked qkv(layer.qkv, rows, cols(layer.net->qkv)), beta(layer.beta, rows, cols(layer.net->beta));
    Picked alpha(layer.alpha, rows, cols(layer.net->alpha));
    const int64_t n_out = cols(layer.net->out);
    std::vector<float> results(rows.size() * static_cast<size_t>(n_out));
    kernels::delta_net(*layer.net, bound_.program.state_layers[static_cast<size_t>(layer.net->state_layer)],
                       {.qkv = qkv.view(), .beta = beta.view(), .alpha = alpha.view(), .a = a, .dt = dt}, batch,
                       {results.data(), std::ssize(rows), n_out, n_out});
  }

  Bound bound_;
  std::vector<RecurrentLayer> recurrent_;  // by state layer; points into bound_
  std::vector<int32_t> sequences_;         // of the last pass's rows
};

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "reference f32, 1 thread"; }

  Result<Buffer> reserve(size_t bytes) override { return Buffer::reserve(bytes); }

  std::span<const tensor::KvType> kv_types() const override {
    static constexpr std::array kTypes = {tensor::KvType::kF32, tensor::KvType::kF16, tensor::KvType::kQ8_0};
    return kTypes;
  }

  KvPageBytes kv_page_bytes(const tensor::KvLayerSpec& layer, tensor::KvType /*type*/) const override {
    return {.k = kernels::k_page_bytes(layer), .v = kernels::v_page_bytes(layer)};
  }

  Result<std::unique_ptr<Executable>> compile(const Program& program, std::span<const WeightView> weights,
                                              const CompileOptions& options) override {
    T9_CHECK(weights.size() == program.weights.size());
    T9_CHECK(options.max_rows > 0 && options.max_outputs >= 0);
    for (size_t i = 0; i < weights.size(); ++i) T9_TRY_VOID(check_weight(program.weights[i], weights[i]));
    Bound bound{.program = program, .weights = {weights.begin(), weights.end()}, .options = options, .slots = {}};
    const int64_t rows = std::max(options.max_rows, options.max_outputs);
    for (int64_t cols : program.memory.slot_cols) {
      T9_TRY(slot, Buffer::reserve(static_cast<size_t>(rows * cols) * sizeof(float)));
      bound.slots.push_back(std::move(slot));
    }
    return std::make_unique<ReferenceExecutable>(std::move(bound));
  }

 private:
  static Result<void> check_weight(const tensor::WeightSpec& spec, const WeightView& view) {
    T9_CHECK_MSG(
        view.dtype == spec.dtype && view.cols == spec.cols && view.rows == spec.rows && view.depth == spec.depth,
        spec.name);
    if (view.layout != tensor::Layout::kInPlace) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("tensor {}: the reference backend reads GGUF order only", spec.name));
    }
    return quant::check_weight_type(spec.name, static_cast<uint32_t>(view.dtype));
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace tempo9::backends
