#include "backends/cpu/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/check.h"

namespace tempo9::backends::cpu {
namespace {

using kernels::ActFormat;
using tensor::kNone;
using tensor::RowSet;
using tensor::ValueId;
using tensor::WeightId;

constexpr size_t kCellAlignment = 64;
size_t align(size_t bytes) { return (bytes + kCellAlignment - 1) / kCellAlignment * kCellAlignment; }

// --- What an operation reads and makes -------------------------------------------------------------------------------
struct Reads {
  std::vector<ValueId> operator()(const tensor::Embed&) const { return {}; }
  std::vector<ValueId> operator()(const tensor::Add& op) const { return {op.a, op.b}; }
  std::vector<ValueId> operator()(const tensor::KvWrite& op) const { return {op.k, op.v}; }
  std::vector<ValueId> operator()(const tensor::Attention& op) const { return {op.q}; }
  std::vector<ValueId> operator()(const tensor::GatedActivation& op) const { return {op.gate, op.up}; }
  std::vector<ValueId> operator()(const tensor::Concat& op) const { return {op.a, op.b}; }
  std::vector<ValueId> operator()(const tensor::GateRows& op) const { return {op.gate, op.x}; }
  std::vector<ValueId> operator()(const tensor::Experts& op) const { return {op.x, op.router}; }
  std::vector<ValueId> operator()(const tensor::DeltaNet& op) const { return {op.qkv, op.beta, op.alpha}; }
  std::vector<ValueId> operator()(const tensor::Input&) const { return {}; }
  std::vector<ValueId> operator()(const auto& op) const { return {op.x}; }
};
struct WorksOn {
  const tensor::Program& program;
  RowSet operator()(const tensor::KvWrite&) const { return RowSet::kBatch; }
  RowSet operator()(const auto& op) const { return program.values[static_cast<size_t>(op.out)].rows; }
};

// Operations without code here.
struct Missing {
  std::string_view operator()(const tensor::Scale&) const { return "Scale"; }
  std::string_view operator()(const tensor::TakeColumns&) const { return "TakeColumns"; }
  std::string_view operator()(const tensor::Concat&) const { return "Concat"; }
  std::string_view operator()(const tensor::GateRows&) const { return "GateRows"; }
  std::string_view operator()(const tensor::PositionScale&) const { return "PositionScale"; }
  std::string_view operator()(const tensor::Experts&) const { return "Experts"; }
  std::string_view operator()(const tensor::CausalConv&) const { return "CausalConv"; }
  std::string_view operator()(const tensor::DeltaNet&) const { return "DeltaNet"; }
  std::string_view operator()(const tensor::Input&) const { return "Input"; }
  std::string_view operator()(const auto&) const { return {}; }
};

bool is_row_op(const tensor::Op& op) {
  return !std::holds_alternative<tensor::MatMul>(op) && !std::holds_alternative<tensor::Attention>(op);
}

// --- Chunk sizes -----------------------------------------------------------------------------------------------------
// Weight rows per chunk. Few activation rows: a chunk is a piece of the weights worth about a microsecond at least, and
// each worker gets some eight of them to even out, within 8 to 128 KiB (spec performance section 7). Many: the kernel
// unpacks a panel once per call, so the panel is small and the row block large.
constexpr int64_t kMinChunkBytes = 8 << 10;
constexpr int64_t kMaxChunkBytes = 128 << 10;
constexpr int64_t kChunksPerWorker = 8;
constexpr int64_t kManyRowsPanel = 64;
// Outputs of a chunk fill whole cache lines, and quantised blocks of 32 stay in one chunk.
constexpr int64_t kPanelGranule = 32;
// Quantised activations of a row block: half of a small L2 cache.
constexpr int64_t kRowBlockBytes = 512 << 10;

int64_t few_rows_panel(const tensor::WeightView& weight, int64_t step_bytes, int n_workers) {
  const int64_t bytes =
      std::clamp(step_bytes / (int64_t{n_workers} * kChunksPerWorker), kMinChunkBytes, kMaxChunkBytes);
  const int64_t rows = std::max<int64_t>(1, bytes / static_cast<int64_t>(weight.row_bytes));
  return (rows + kPanelGranule - 1) / kPanelGranule * kPanelGranule;
}

int64_t row_block(int64_t cols, ActFormat format) {
  const int64_t bytes = format == ActFormat::kF32 ? cols * 4 : cols;
  return std::max<int64_t>(32, kRowBlockBytes / bytes / 32 * 32);
}

// --- The planner -----------------------------------------------------------------------------------------------------
class Planner {
 public:
  Planner(const tensor::Program& program, const Weights& weights, const kernels::Isa& isa, const PlanOptions& options)
      : program_(program),
        weights_(weights),
        isa_(isa),
        options_(options),
        done_(program.ops.size(), false),
        value_cells_(program.values.size(), -1) {
    for (const tensor::Op& op : program.ops) {
      if (const auto* write = std::get_if<tensor::KvWrite>(&op)) pending_writes_.push_back(write->kv_layer);
    }
  }

  Result<Plan> plan() && {
    for (const tensor::Op& op : program_.ops) {
      if (const std::string_view name = std::visit(Missing{}, op); !name.empty()) {
        return fail(ErrorCode::kUnsupported, fmt::format("the cpu backend has no code for the operation {}", name));
      }
    }
    size_t n_left = program_.ops.size();
    while (n_left > 0) {
      T9_TRY(n_emitted, options_.fused ? emit_ready() : emit_next());
      T9_CHECK_MSG(n_emitted > 0, "operations of the program wait for each other");
      n_left -= n_emitted;
    }
    place_cells();
    return std::move(plan_);
  }

 private:
  // --- Order. Row operations first, since they join the step before; then all products at once.
  Result<size_t> emit_ready() {
    size_t n_emitted = 0;
    for (size_t i = 0; i < done_.size(); ++i) {
      if (!is_ready(i) || !is_row_op(program_.ops[i])) continue;
      T9_TRY_VOID(emit_row_op(i));
      ++n_emitted;
    }
    if (n_emitted > 0) return n_emitted;
    std::vector<size_t> products;
    for (size_t i = 0; i < done_.size(); ++i) {
      const tensor::Op& op = program_.ops[i];
      if (!is_ready(i) || !std::holds_alternative<tensor::MatMul>(op)) continue;
      if (products.empty() || row_set(i) == row_set(products.front())) products.push_back(i);
    }
    if (!products.empty()) return emit_products(products);
    for (size_t i = 0; i < done_.size() && n_emitted == 0; ++i) {
      if (!is_ready(i)) continue;
      emit_attention(i);
      ++n_emitted;
    }
    return n_emitted;
  }

  // The first operation that is left, in a step of its own.
  Result<size_t> emit_next() {
    const auto next = static_cast<size_t>(std::ranges::find(done_, false) - done_.begin());
    const tensor::Op& op = program_.ops[next];
    if (std::holds_alternative<tensor::MatMul>(op)) return emit_products({next});
    if (std::holds_alternative<tensor::Attention>(op)) {
      emit_attention(next);
    } else {
      T9_TRY_VOID(emit_row_op(next));
    }
    return size_t{1};
  }

  bool is_ready(size_t index) const {
    if (done_[index]) return false;
    const tensor::Op& op = program_.ops[index];
    for (const ValueId value : std::visit(Reads{}, op)) {
      if (value_cells_[static_cast<size_t>(value)] < 0) return false;
    }
    const auto* attention = std::get_if<tensor::Attention>(&op);
    return attention == nullptr || std::ranges::count(pending_writes_, attention->kv_layer) == 0;
  }

  RowSet row_set(size_t index) const { return std::visit(WorksOn{program_}, program_.ops[index]); }

  // --- Row operations
  RowStep& row_step(RowSet rows) {
    RowStep* last = plan_.steps.empty() ? nullptr : std::get_if<RowStep>(&plan_.steps.back().work);
    if (last != nullptr && last->rows == rows && options_.fused) return *last;
    return std::get<RowStep>(plan_.steps.emplace_back(RowStep{.rows = rows, .ops = {}}).work);
  }

  Result<void> emit_row_op(size_t index) {
    done_[index] = true;
    RowStep& step = row_step(row_set(index));
    T9_TRY(op, std::visit([this](const auto& source) { return bind(source); }, program_.ops[index]));
    step.ops.push_back(std::move(op));
    if (const auto* write = std::get_if<tensor::KvWrite>(&program_.ops[index])) {
      pending_writes_.erase(std::ranges::find(pending_writes_, write->kv_layer));
    }
    return {};
  }

  Result<RowOp> bind(const tensor::Embed& op) {
    const tensor::WeightView& table = weights_.views[static_cast<size_t>(op.table)];
    const quant::QuantType* type = quant::find_type(table.dtype);
    if (type == nullptr) return unreadable(op.table);
    return EmbedOp{.table = table, .decode = type->decode, .scale = op.scale, .out = make(op.out)};
  }
  Result<RowOp> bind(const tensor::RmsNorm& op) {
    const int64_t cols = value(op.out).cols;
    return NormOp{.x = use(op.x),
                  .weight = vector(op.weight),
                  .out = make(op.out),
                  .cols = cols,
                  .group = op.group > 0 ? op.group : cols,
                  .eps = op.eps};
  }
  Result<RowOp> bind(const tensor::Add& op) {
    return AddOp{.a = use(op.a), .b = use(op.b), .out = make(op.out), .cols = value(op.out).cols};
  }
  Result<RowOp> bind(const tensor::Rope& op) {
    const CellId angles = angle_cell(op);
    return RotateOp{.x = use(op.x),
                    .angles = angles,
                    .out = make(op.out),
                    .n_heads = value(op.out).cols / op.head_dim,
                    .head_dim = op.head_dim,
                    .n_rot = op.n_rot,
                    .pairs = op.pairs};
  }
  Result<RowOp> bind(const tensor::KvWrite& op) {
    const tensor::KvLayerSpec& layer = program_.kv_layers[static_cast<size_t>(op.kv_layer)];
    return KvStoreOp{.k = use(op.k),
                     .v = use(op.v),
                     .kv_layer = op.kv_layer,
                     .shape = {.n_heads = layer.n_kv_heads,
                               .n_kv_heads = layer.n_kv_heads,
                               .k_head_dim = layer.k_head_dim,
                               .v_head_dim = layer.v_head_dim}};
  }
  Result<RowOp> bind(const tensor::GatedActivation& op) {
    return GatedOp{.activation = op.activation,
                   .gate = use(op.gate),
                   .up = use(op.up),
                   .out = make(op.out),
                   .cols = value(op.out).cols};
  }
  Result<RowOp> bind(const tensor::SelectOutputs& op) {
    return SelectOp{.x = use(op.x), .out = make(op.out), .cols = value(op.out).cols};
  }
  Result<RowOp> bind(const tensor::SoftCap& op) {
    return CapOp{.x = use(op.x), .out = make(op.out), .cols = value(op.out).cols, .cap = op.cap};
  }
  Result<RowOp> bind(const auto&) { T9_CHECK_MSG(false, "not a row operation"); }

  // The angles of a row are worked out once per pass, in the first step, for all layers that turn alike.
  CellId angle_cell(const tensor::Rope& op) {
    const auto [entry, is_new] = angle_cells_.try_emplace({op.frequencies, op.axes, op.magnitude}, -1);
    if (is_new) {
      const std::vector<float>& frequencies = program_.rope_frequencies[static_cast<size_t>(op.frequencies)];
      entry->second = new_cell(RowSet::kBatch, 2 * frequencies.size() * sizeof(float));
      uses_.back().first = 0;
      auto* first = std::get_if<RowStep>(&plan_.steps.front().work);
      T9_CHECK_MSG(first != nullptr && first->rows == RowSet::kBatch, "a program starts with a row operation");
      first->ops.push_back(
          AnglesOp{.frequencies = frequencies.data(),
                   .axes = op.axes == kNone ? nullptr : program_.rope_axes[static_cast<size_t>(op.axes)].data(),
                   .n_pairs = std::ssize(frequencies),
                   .magnitude = op.magnitude,
                   .out = entry->second});
    }
    return use_cell(entry->second);
  }

  // --- Products
  Result<size_t> emit_products(const std::vector<size_t>& indices) {
    size_t n_emitted = indices.size();
    // Inputs first: making one may add a row step.
    std::vector<Product> products;
    for (const size_t index : indices) {
      T9_TRY(product, bind_product(std::get<tensor::MatMul>(program_.ops[index]), row_set(index)));
      products.push_back(std::move(product));
      done_[index] = true;
    }
    Step& step = plan_.steps.emplace_back(MatMulStep{.rows = row_set(indices.front()), .groups = {}});
    auto& groups = std::get<MatMulStep>(step.work).groups;
    int64_t step_bytes = 0;
    for (size_t i = 0; i < indices.size(); ++i) {
      use_cell(products[i].x);
      products[i].out = make(std::get<tensor::MatMul>(program_.ops[indices[i]]).out);
      step_bytes += static_cast<int64_t>(products[i].weight.size_bytes());
      groups.push_back(ProductGroup{.products = {std::move(products[i])}, .gated = {}});
    }
    if (options_.fused) n_emitted += join_gated(groups);
    for (ProductGroup& group : groups) {
      const Product& first = group.products.front();
      group.panel_few = few_rows_panel(first.weight, step_bytes, options_.n_workers);
      group.panel_many = kManyRowsPanel;
      group.row_block = row_block(first.weight.cols, first.format);
    }
    return n_emitted;
  }

  Result<Product> bind_product(const tensor::MatMul& op, RowSet rows) {
    const tensor::WeightView& weight = weights_.views[static_cast<size_t>(op.weight)];
    if (quant::find_type(weight.dtype) == nullptr || weight.depth != 1) return unreadable(op.weight);
    Product product{.weight = weight, .bias = vector(op.bias), .format = kernels::act_format(weight.dtype)};
    if (product.format == ActFormat::kF32) {
      product.floating = isa_.matmul->floating(weight.dtype);
      product.x = value_cells_[static_cast<size_t>(op.x)];
    } else {
      product.quant = isa_.matmul->quant(weight.dtype);
      product.x = quantized_cell(op.x, product.format, rows);
    }
    plan_.matmul_scratch_bytes = std::max(plan_.matmul_scratch_bytes, isa_.matmul->scratch_bytes(weight));
    return product;
  }

  // A value is quantised at most once per format.
  CellId quantized_cell(ValueId id, ActFormat format, RowSet rows) {
    const auto [entry, is_new] = quantized_cells_.try_emplace({id, format}, -1);
    if (is_new) {
      const int64_t cols = value(id).cols;
      RowStep& step = row_step(rows);
      const CellId x = use(id);
      entry->second = new_cell(rows, quantized_row_bytes(format, cols));
      step.ops.push_back(QuantizeOp{.x = x, .out = entry->second, .cols = cols, .format = format});
    }
    return entry->second;
  }

  // Moves the up product to the gate product of the same gated activation, and the activation with them.
  size_t join_gated(std::vector<ProductGroup>& groups) {
    size_t n_joined = 0;
    for (size_t i = 0; i < done_.size(); ++i) {
      const auto* op = std::get_if<tensor::GatedActivation>(&program_.ops[i]);
      if (op == nullptr || !is_ready(i)) continue;
      const auto makes = [this](ValueId id) {
        return [cell = value_cells_[static_cast<size_t>(id)]](const ProductGroup& group) {
          return group.products.size() == 1 && group.products.front().out == cell;
        };
      };
      const auto gate = std::ranges::find_if(groups, makes(op->gate));
      const auto up = std::ranges::find_if(groups, makes(op->up));
      if (gate == groups.end() || up == groups.end() || gate == up) continue;
      gate->products.push_back(std::move(up->products.front()));
      gate->gated = GatedOp{.activation = op->activation,
                            .gate = gate->products.front().out,
                            .up = gate->products.back().out,
                            .out = make(op->out),
                            .cols = value(op->out).cols};
      groups.erase(up);
      done_[i] = true;
      ++n_joined;
    }
    return n_joined;
  }

  // --- Attention
  void emit_attention(size_t index) {
    const auto& op = std::get<tensor::Attention>(program_.ops[index]);
    const tensor::KvLayerSpec& layer = program_.kv_layers[static_cast<size_t>(op.kv_layer)];
    done_[index] = true;
    Step& step = plan_.steps.emplace_back(AttentionStep{});
    auto& attention = std::get<AttentionStep>(step.work);
    attention = {.q = use(op.q),
                 .out = make(op.out),
                 .kv_layer = op.kv_layer,
                 .shape = {.n_heads = op.n_heads,
                           .n_kv_heads = layer.n_kv_heads,
                           .k_head_dim = layer.k_head_dim,
                           .v_head_dim = layer.v_head_dim,
                           .scale = op.scale,
                           .softcap = op.softcap,
                           .window = op.window},
                 .sinks = vector(op.sinks)};
  }

  // --- Cells
  struct Use {
    size_t first;
    size_t last;
  };

  size_t current_step() const { return plan_.steps.size() - 1; }
  const tensor::Value& value(ValueId id) const { return program_.values[static_cast<size_t>(id)]; }

  // For cells that the current step makes.
  CellId new_cell(RowSet rows, size_t row_bytes) {
    plan_.cells.push_back(Cell{.rows = rows, .row_bytes = align(row_bytes)});
    uses_.push_back({current_step(), current_step()});
    return static_cast<CellId>(plan_.cells.size() - 1);
  }
  CellId make(ValueId id) {
    const CellId cell = new_cell(value(id).rows, static_cast<size_t>(value(id).cols) * sizeof(float));
    if (id == program_.logits) plan_.cells.back().place = Cell::Place::kLogits;
    if (id == program_.hidden) plan_.cells.back().place = Cell::Place::kHidden;
    value_cells_[static_cast<size_t>(id)] = cell;
    plan_.steps.back().values.emplace_back(id, cell);
    return cell;
  }
  CellId use_cell(CellId cell) {
    Use& use = uses_[static_cast<size_t>(cell)];
    use.last = std::max(use.last, current_step());
    return cell;
  }
  CellId use(ValueId id) { return use_cell(value_cells_[static_cast<size_t>(id)]); }

  const float* vector(WeightId id) const {
    return id == kNone ? nullptr : weights_.vectors[static_cast<size_t>(id)].data();
  }

  std::unexpected<Error> unreadable(WeightId id) const {
    const auto index = static_cast<size_t>(id);
    const tensor::WeightView& weight = weights_.views[index];
    return fail(ErrorCode::kUnsupported,
                fmt::format("weight {}: the cpu backend cannot use type {} with depth {} here",
                            program_.weights[index].name, tensor::dtype_name(weight.dtype), weight.depth));
  }

  // First fit by the order in which cells are made: a cell's memory is free for cells of later steps once its last
  // reader is done.
  void place_cells() {
    struct Placed {
      size_t begin, end, free_after;
    };
    std::vector<Placed> live;  // by address
    std::vector<size_t> order(plan_.cells.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [this](size_t i) { return uses_[i].first; });
    for (const size_t i : order) {
      Cell& cell = plan_.cells[i];
      std::erase_if(live, [&](const Placed& placed) { return placed.free_after < uses_[i].first; });
      size_t offset = 0;
      auto before = live.begin();
      while (before != live.end() && before->begin < offset + cell.row_bytes) offset = (before++)->end;
      cell.offset = offset;
      live.insert(before, {offset, offset + cell.row_bytes, uses_[i].last});
      plan_.bytes_per_row = std::max(plan_.bytes_per_row, offset + cell.row_bytes);
    }
  }

  const tensor::Program& program_;
  const Weights& weights_;
  const kernels::Isa& isa_;
  const PlanOptions options_;

  Plan plan_;
  std::vector<bool> done_;               // per operation
  std::vector<int32_t> pending_writes_;  // KV layers of the KvWrites to come
  std::vector<CellId> value_cells_;      // -1: not made yet
  std::map<std::pair<ValueId, ActFormat>, CellId> quantized_cells_;
  std::map<std::tuple<int32_t, int32_t, float>, CellId> angle_cells_;
  std::vector<Use> uses_;  // per cell: the step that makes it and the last that reads it
};

}  // namespace

size_t quantized_row_bytes(ActFormat format, int64_t cols) {
  const kernels::QuantizedRows rows{.cols = cols, .format = format};
  return static_cast<size_t>(cols + cols / rows.block() * int64_t{sizeof(float)} +
                             cols / rows.sum_group() * int64_t{sizeof(int16_t)});
}

kernels::QuantizedRows quantized_view(std::byte* data, ActFormat format, int64_t rows, int64_t cols) {
  kernels::QuantizedRows view{.rows = rows, .cols = cols, .format = format};
  // Columns are a multiple of 32, so each part is aligned for the next.
  view.q = reinterpret_cast<int8_t*>(data);
  view.d = reinterpret_cast<float*>(view.q + rows * cols);
  view.sums = reinterpret_cast<int16_t*>(view.d + rows * (cols / view.block()));
  return view;
}

Result<Plan> make_plan(const tensor::Program& program, const Weights& weights, const kernels::Isa& isa,
                       const PlanOptions& options) {
  return Planner(program, weights, isa, options).plan();
}

}  // namespace tempo9::backends::cpu
