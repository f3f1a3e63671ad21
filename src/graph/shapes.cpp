#include "graph/shapes.h"

#include <fmt/format.h>

namespace tempo9::graph {
namespace {

using tensor::kNone;
using tensor::RowSet;

// Keeps products of two sizes far from the ends of int64. (Real models stay below 2^23 columns.)
constexpr int64_t kMaxCols = int64_t{1} << 31;
constexpr int64_t kMaxHeads = int64_t{1} << 24;

template <class... Args>
Result<void> require(bool holds, fmt::format_string<const Args&...> text, const Args&... args) {
  if (holds) return {};
  return fail(ErrorCode::kInvalidInput, fmt::format(text, args...));
}

bool is_size(int64_t x, int64_t max = kMaxCols) { return x > 0 && x <= max; }

template <class T>
Result<const T*> element(const std::vector<T>& list, int32_t index, std::string_view what) {
  T9_TRY_VOID(require(index >= 0 && static_cast<size_t>(index) < list.size(), "there is no {} {} among the {}", what,
                      index, list.size()));
  return &list[static_cast<size_t>(index)];
}

// An overload per op.
class Rules {
 public:
  explicit Rules(const tensor::Program& program) : program_(program) {}

  Result<Shape> operator()(const tensor::Embed& op) const {
    T9_TRY(table, weight(op.table));
    T9_TRY_VOID(require(table->depth == 1, "{} is a stack of {}", table->name, table->depth));
    return Shape{.cols = table->cols, .rows = RowSet::kBatch};
  }

  Result<Shape> operator()(const tensor::RmsNorm& op) const {
    T9_TRY(x, value(op.x));
    T9_TRY_VOID(require(op.group > 0 && x->cols % op.group == 0, "{} columns, group {}", x->cols, op.group));
    T9_TRY_VOID(require(op.eps > 0.0f, "epsilon {}", op.eps));
    T9_TRY_VOID(check_vector(op.weight, op.group));
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::MatMul& op) const {
    T9_TRY(x, value(op.x));
    T9_TRY(w, weight(op.weight));
    T9_TRY_VOID(require(w->depth == 1 && w->cols == x->cols, "{} [{}, {}, {}] times {} columns", w->name, w->cols,
                        w->rows, w->depth, x->cols));
    T9_TRY_VOID(check_vector(op.bias, w->rows));
    return Shape{.cols = w->rows, .rows = x->rows};
  }

  Result<Shape> operator()(const tensor::Add& op) const { return alike(op.a, op.b); }

  Result<Shape> operator()(const tensor::Rope& op) const {
    T9_TRY(x, batch_value(op.x));
    T9_TRY(frequencies, element(program_.rope_frequencies, op.frequencies, "frequency table"));
    T9_TRY_VOID(require(is_size(op.head_dim) && x->cols % op.head_dim == 0 && op.n_rot <= op.head_dim &&
                            op.n_rot == 2 * std::ssize(*frequencies),
                        "{} columns, heads of {}, {} rotated by {} frequencies", x->cols, op.head_dim, op.n_rot,
                        frequencies->size()));
    if (op.axes != kNone) {
      T9_TRY(axes, element(program_.rope_axes, op.axes, "axis table"));
      T9_TRY_VOID(
          require(axes->size() == frequencies->size(), "{} axes for {} pairs", axes->size(), frequencies->size()));
    }
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::KvWrite& op) const {
    T9_TRY(layer, element(program_.kv_layers, op.kv_layer, "KV layer"));
    T9_TRY(k, batch_value(op.k));
    T9_TRY(v, batch_value(op.v));
    T9_TRY_VOID(
        require(k->cols == layer->n_kv_heads * layer->k_head_dim && v->cols == layer->n_kv_heads * layer->v_head_dim,
                "columns of k, v: {}, {}; {} heads of {}, {}", k->cols, v->cols, layer->n_kv_heads, layer->k_head_dim,
                layer->v_head_dim));
    return Shape{};
  }

  Result<Shape> operator()(const tensor::Attention& op) const {
    T9_TRY(layer, element(program_.kv_layers, op.kv_layer, "KV layer"));
    T9_TRY(q, batch_value(op.q));
    T9_TRY_VOID(require(is_size(op.n_heads, kMaxHeads) && op.n_heads % layer->n_kv_heads == 0,
                        "{} heads over {} KV heads", op.n_heads, layer->n_kv_heads));
    T9_TRY_VOID(require(q->cols == op.n_heads * layer->k_head_dim, "columns of q: {}; {} heads of {}", q->cols,
                        op.n_heads, layer->k_head_dim));
    T9_TRY_VOID(require(op.window == layer->window, "window {} over a layer that keeps {}", op.window, layer->window));
    T9_TRY_VOID(check_vector(op.sinks, op.n_heads));
    return Shape{.cols = op.n_heads * layer->v_head_dim, .rows = RowSet::kBatch};
  }

  Result<Shape> operator()(const tensor::GatedActivation& op) const { return alike(op.gate, op.up); }

  Result<Shape> operator()(const tensor::SelectOutputs& op) const {
    T9_TRY(x, batch_value(op.x));
    return Shape{.cols = x->cols, .rows = RowSet::kOutputs};
  }

  Result<Shape> operator()(const tensor::SoftCap& op) const {
    T9_TRY(x, value(op.x));
    T9_TRY_VOID(require(op.cap > 0.0f, "cap {}", op.cap));
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::Scale& op) const {
    T9_TRY(x, value(op.x));
    T9_TRY_VOID(check_vector(op.by, 1));
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::TakeColumns& op) const {
    T9_TRY(x, value(op.x));
    T9_TRY_VOID(require(is_size(op.group) && x->cols % op.group == 0 && op.begin >= 0 && is_size(op.count) &&
                            op.begin <= op.group - op.count,
                        "{} columns from {} on, of each {} of {}", op.count, op.begin, op.group, x->cols));
    return Shape{.cols = x->cols / op.group * op.count, .rows = x->rows};
  }

  Result<Shape> operator()(const tensor::Concat& op) const {
    T9_TRY(a, value(op.a));
    T9_TRY(b, value(op.b));
    T9_TRY_VOID(require(a->rows == b->rows, "rows of different kinds"));
    T9_TRY_VOID(require(a->cols + b->cols <= kMaxCols, "{} and {} columns", a->cols, b->cols));
    return Shape{.cols = a->cols + b->cols, .rows = a->rows};
  }

  Result<Shape> operator()(const tensor::GateRows& op) const {
    T9_TRY(gate, value(op.gate));
    T9_TRY(x, value(op.x));
    T9_TRY_VOID(require(gate->cols == 1 && gate->rows == x->rows, "gate of {} columns", gate->cols));
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::PositionScale& op) const {
    T9_TRY(x, batch_value(op.x));
    T9_TRY_VOID(require(op.period > 0, "period {}", op.period));
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::Experts& op) const {
    T9_TRY(x, value(op.x));
    T9_TRY(router, value(op.router));
    T9_TRY(gate, weight(op.gate));
    T9_TRY(down, weight(op.down));
    const int64_t n_experts = router->cols;
    const int64_t n_ff = down->cols;
    T9_TRY_VOID(require(x->rows == router->rows, "rows of different kinds"));
    T9_TRY_VOID(require(op.n_used > 0 && op.n_used <= n_experts, "{} of {} experts", op.n_used, n_experts));
    T9_TRY_VOID(check_stack(*gate, x->cols, op.up == kNone ? 2 * n_ff : n_ff, n_experts));
    if (op.up != kNone) {
      T9_TRY(up, weight(op.up));
      T9_TRY_VOID(check_stack(*up, x->cols, n_ff, n_experts));
    }
    T9_TRY_VOID(check_stack(*down, n_ff, down->rows, n_experts));
    T9_TRY_VOID(check_vector(op.gate_bias, gate->rows, n_experts));
    T9_TRY_VOID(check_vector(op.up_bias, n_ff, n_experts));
    T9_TRY_VOID(check_vector(op.down_bias, down->rows, n_experts));
    T9_TRY_VOID(check_vector(op.expert_scale, n_experts));
    return Shape{.cols = down->rows, .rows = x->rows};
  }

  Result<Shape> operator()(const tensor::CausalConv& op) const {
    T9_TRY(x, batch_value(op.x));
    T9_TRY(w, weight(op.weight));
    T9_TRY(layer, element(program_.state_layers, op.state_layer, "state layer"));
    T9_TRY_VOID(require(w->cols > 1, "a kernel of {}", w->cols));
    T9_TRY_VOID(check_vector(op.weight, w->cols, x->cols));
    T9_TRY_VOID(require(layer->conv_floats == (w->cols - 1) * w->rows, "a state of {} for {} earlier rows of {}",
                        layer->conv_floats, w->cols - 1, w->rows));
    return same_as(*x);
  }

  Result<Shape> operator()(const tensor::DeltaNet& op) const {
    T9_TRY(qkv, batch_value(op.qkv));
    T9_TRY(beta, batch_value(op.beta));
    T9_TRY(alpha, batch_value(op.alpha));
    T9_TRY(layer, element(program_.state_layers, op.state_layer, "state layer"));
    T9_TRY_VOID(require(is_size(op.n_k_heads, kMaxHeads) && is_size(op.n_v_heads, kMaxHeads) &&
                            is_size(op.k_dim, kMaxHeads) && is_size(op.v_dim, kMaxHeads) &&
                            op.n_v_heads % op.n_k_heads == 0,
                        "{} heads of {}, {} heads of {}", op.n_k_heads, op.k_dim, op.n_v_heads, op.v_dim));
    T9_TRY_VOID(require(qkv->cols == 2 * op.n_k_heads * op.k_dim + op.n_v_heads * op.v_dim &&
                            beta->cols == op.n_v_heads && alpha->cols == op.n_v_heads,
                        "columns {}, {}, {}", qkv->cols, beta->cols, alpha->cols));
    T9_TRY_VOID(require(
        layer->delta_floats / op.k_dim / op.v_dim == op.n_v_heads && layer->delta_floats % (op.k_dim * op.v_dim) == 0,
        "a state of {} for {} matrices of {} by {}", layer->delta_floats, op.n_v_heads, op.k_dim, op.v_dim));
    T9_TRY_VOID(weight(op.a));
    T9_TRY_VOID(weight(op.dt));
    T9_TRY_VOID(check_vector(op.a, op.n_v_heads));
    T9_TRY_VOID(check_vector(op.dt, op.n_v_heads));
    return Shape{.cols = op.n_v_heads * op.v_dim, .rows = RowSet::kBatch};
  }

  Result<Shape> operator()(const tensor::Input& op) const {
    T9_TRY_VOID(require(is_size(op.cols), "{} columns", op.cols));
    return Shape{.cols = op.cols, .rows = RowSet::kBatch};
  }

  Result<Shape> operator()(const tensor::AddEmbedding& op) const {
    T9_TRY(x, batch_value(op.x));
    T9_TRY_VOID(require(is_size(op.begin), "columns from {} on", op.begin));
    return same_as(*x);
  }

 private:
  Result<const tensor::Value*> value(tensor::ValueId id) const { return element(program_.values, id, "value"); }
  Result<const tensor::Value*> batch_value(tensor::ValueId id) const {
    T9_TRY(x, value(id));
    T9_TRY_VOID(require(x->rows == RowSet::kBatch, "{} has only the rows of outputs", x->name));
    return x;
  }
  Result<const tensor::WeightSpec*> weight(tensor::WeightId id) const {
    return element(program_.weights, id, "weight");
  }
  // Floats that kernels read as they are (norm weights, biases), `count` rows of them; or nothing.
  Result<void> check_vector(tensor::WeightId id, int64_t elements, int64_t count = 1) const {
    if (id == kNone) return {};
    T9_TRY(w, weight(id));
    return require(w->dtype == tensor::DType::kF32 && w->cols == elements && w->rows == count && w->depth == 1,
                   "{}: {} [{}, {}, {}] where a vector of {} F32 is needed", w->name, tensor::dtype_name(w->dtype),
                   w->cols, w->rows, w->depth, elements);
  }
  static Result<void> check_stack(const tensor::WeightSpec& w, int64_t cols, int64_t rows, int64_t depth) {
    return require(w.cols == cols && w.rows == rows && w.depth == depth, "{} [{}, {}, {}], needed are [{}, {}, {}]",
                   w.name, w.cols, w.rows, w.depth, cols, rows, depth);
  }

  static Result<Shape> same_as(const tensor::Value& x) { return Shape{.cols = x.cols, .rows = x.rows}; }
  Result<Shape> alike(tensor::ValueId a_id, tensor::ValueId b_id) const {
    T9_TRY(a, value(a_id));
    T9_TRY(b, value(b_id));
    T9_TRY_VOID(require(a->cols == b->cols, "{} and {} columns", a->cols, b->cols));
    T9_TRY_VOID(require(a->rows == b->rows, "rows of different kinds"));
    return same_as(*a);
  }

  const tensor::Program& program_;
};

}  // namespace

Result<Shape> output_shape(const tensor::Program& program, const tensor::Op& op) {
  return std::visit(Rules(program), op);
}

Result<void> check_weight(const tensor::WeightSpec& weight) {
  return require(is_size(weight.cols) && is_size(weight.rows) && is_size(weight.depth), "weight {}: [{}, {}, {}]",
                 weight.name, weight.cols, weight.rows, weight.depth);
}

Result<void> check_kv_layer(const tensor::KvLayerSpec& layer) {
  return require(is_size(layer.n_kv_heads, kMaxHeads) && is_size(layer.k_head_dim, kMaxHeads) &&
                     is_size(layer.v_head_dim, kMaxHeads) && layer.window >= 0,
                 "a KV layer of {} heads of {} and {}, window {}", layer.n_kv_heads, layer.k_head_dim, layer.v_head_dim,
                 layer.window);
}

Result<void> check_state_layer(const tensor::StateLayerSpec& layer) {
  constexpr int64_t kMaxFloats = int64_t{1} << 40;
  return require(is_size(layer.conv_floats, kMaxFloats) && is_size(layer.delta_floats, kMaxFloats),
                 "a state layer of {} and {} floats", layer.conv_floats, layer.delta_floats);
}

}  // namespace tempo9::graph
