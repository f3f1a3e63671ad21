// What a program becomes on the CPU: a short list of steps, each of which the threads share, over cells of working
// memory. Plain data; making it is planner.h, running it executable.cpp.
//
// Between two steps the threads wait for each other, so few steps are good. Operations that look at one row only are
// joined to row steps, products that do not need each other to matmul steps; both follow from what depends on what, not
// from the order in the program.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "base/result.h"
#include "kernels/attention.h"
#include "kernels/kernels.h"
#include "kernels/quantized_memory.h"
#include "kernels/recurrent.h"
#include "quant/quant.h"
#include "tensor/program.h"
#include "tensor/views.h"

namespace tempo9::backends::cpu {

using CellId = int32_t;

// Working memory for one thing with a row per batch row (or wanted output): a value, a value quantised, rotary angles.
struct Cell {
  tensor::RowSet rows = tensor::RowSet::kBatch;
  size_t row_bytes = 0;  // a multiple of 64
  enum class Place : uint8_t { kHere, kLogits, kHidden };
  Place place = Place::kHere;  // or in the caller's memory, if it gives some
  size_t offset = 0;           // per row of the batch: the cell starts at offset * rows
};

// --- Operations on one row -------------------------------------------------------------------------------------------
struct AnglesOp {
  const float* frequencies = nullptr;
  const uint8_t* axes = nullptr;  // plane of positions of each pair; may be null
  int64_t n_pairs = 0;
  float magnitude = 1.0f;
  CellId out = -1;  // cosines, then sines
};
struct EmbedOp {
  tensor::WeightView table;
  void (*decode)(const std::byte* blocks, float* out, int64_t n) = nullptr;
  float scale = 1.0f;
  CellId out = -1;
};
struct NormOp {
  CellId x = -1;
  const float* weight = nullptr;  // may be null
  CellId out = -1;
  int64_t cols = 0;
  int64_t group = 0;
  float eps = 0.0f;
};
struct AddOp {
  CellId a = -1;
  CellId b = -1;
  CellId out = -1;
  int64_t cols = 0;
};
struct RotateOp {
  CellId x = -1;
  CellId angles = -1;
  CellId out = -1;
  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t n_rot = 0;
  tensor::RopePairs pairs = tensor::RopePairs::kHalves;
};
struct KvStoreOp {
  CellId k = -1;
  CellId v = -1;
  int32_t kv_layer = 0;
  kernels::AttentionShape shape;
};
struct GatedOp {
  tensor::Activation activation = tensor::Activation::kSilu;
  CellId gate = -1;
  CellId up = -1;
  CellId out = -1;
  int64_t cols = 0;
};
struct SelectOp {
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
};
struct CapOp {
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
  float cap = 0.0f;
};
struct ScaleOp {
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
  float factor = 1.0f;
};
struct TakeOp {
  CellId x = -1;
  CellId out = -1;
  int64_t n_groups = 0;
  int64_t group = 0;
  int64_t begin = 0;
  int64_t count = 0;
};
struct ConcatOp {
  CellId a = -1;
  CellId b = -1;
  CellId out = -1;
  int64_t a_cols = 0;
  int64_t b_cols = 0;
};
struct GateRowOp {
  CellId gate = -1;
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
};
struct PositionScaleOp {
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
  float beta = 0.0f;
  int64_t period = 1;
};
struct InputOp {
  CellId out = -1;
  int64_t cols = 0;
};
struct AddEmbeddingOp {
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
  int64_t begin = 0;
};
// Chooses the experts of a row and weighs them (see tensor::Experts).
struct ChooseOp {
  CellId router = -1;
  CellId out = -1;  // ExpertChoices
  int64_t n_experts = 0;
  int64_t n_used = 0;
  float weight_scale = 1.0f;
  const float* expert_scale = nullptr;  // may be null
};
// Adds what the chosen experts gave, in the order of the choice.
struct CombineOp {
  CellId choices = -1;
  CellId results = -1;
  CellId out = -1;
  int64_t n_used = 0;
  int64_t cols = 0;
};
struct QuantizeOp {
  CellId x = -1;
  CellId out = -1;
  int64_t cols = 0;
  kernels::ActFormat format = kernels::ActFormat::kA32;
};
using RowOp =
    std::variant<AnglesOp, EmbedOp, NormOp, AddOp, RotateOp, KvStoreOp, GatedOp, SelectOp, CapOp, ScaleOp, TakeOp,
                 ConcatOp, GateRowOp, PositionScaleOp, InputOp, AddEmbeddingOp, ChooseOp, CombineOp, QuantizeOp>;

// --- Steps -----------------------------------------------------------------------------------------------------------
// Runs `ops` on each row, one after another.
struct RowStep {
  tensor::RowSet rows = tensor::RowSet::kBatch;
  std::vector<RowOp> ops;
};

struct Product {
  tensor::WeightView weight;
  const float* bias = nullptr;
  CellId x = -1;  // a value, or its quantised form
  CellId out = -1;
  kernels::ActFormat format = kernels::ActFormat::kF32;
  kernels::MatMulQuant quant = nullptr;
  kernels::MatMulFloat floating = nullptr;
};

// Products whose output columns are worked out together: one, or a gate and an up matrix with the activation that joins
// them while both are in the cache.
struct ProductGroup {
  std::vector<Product> products;
  std::optional<GatedOp> gated;
  int64_t panel_few = 0;   // weight rows of a chunk in passes of few rows
  int64_t panel_many = 0;  // and of many
  int64_t row_block = 0;   // activation rows of a chunk
};

struct MatMulStep {
  tensor::RowSet rows = tensor::RowSet::kBatch;
  std::vector<ProductGroup> groups;
};

struct AttentionStep {
  CellId q = -1;
  CellId out = -1;
  int32_t kv_layer = 0;
  kernels::AttentionShape shape;
  const float* sinks = nullptr;
};

// The experts' products. Pairs of (row, chosen expert) are sorted by expert; those of one expert, at most `tile_rows`,
// are multiplied together. Stages: sort; gate and up with the activation; down.
struct ExpertsStep {
  tensor::RowSet rows = tensor::RowSet::kBatch;
  int64_t n_experts = 0;
  int64_t n_used = 0;
  int64_t n_inner = 0;
  tensor::Activation activation = tensor::Activation::kSilu;
  // Stacks of all experts' weights and biases. Of each expert's `weight.rows` rows gate and up take the first n_inner;
  // where one tensor holds both, up's memory begins at the first up row.
  Product gate;
  Product up;
  Product down;
  CellId choices = -1;       // ExpertChoices of each row
  CellId tiles = -1;         // ExpertTiles
  CellId inner = -1;         // per pair, as `down` reads it
  CellId results = -1;       // per pair
  size_t buffer_offset = 0;  // in a worker's scratch: room for a chunk of gate and of up
  int64_t tile_rows = 0;
  // Weight rows of a chunk in passes of few rows and of many. Those of gate and up are whole blocks of `inner`.
  int64_t inner_panel_few = 0;
  int64_t inner_panel_many = 0;
  int64_t down_panel_few = 0;
  int64_t down_panel_many = 0;
};

struct ConvStep {
  CellId x = -1;
  CellId out = -1;
  const float* taps = nullptr;  // [kernel][cols]
  int64_t kernel = 0;
  int64_t cols = 0;
  int32_t state_layer = 0;
};

struct DeltaNetStep {
  CellId qkv = -1;
  CellId beta = -1;
  CellId alpha = -1;
  CellId out = -1;
  const float* a = nullptr;
  const float* dt = nullptr;
  kernels::DeltaNetShape shape;
  int32_t state_layer = 0;
  int64_t state_offset = 0;  // floats of the state that belong to the convolution
};

struct Step {
  std::variant<RowStep, MatMulStep, AttentionStep, ExpertsStep, ConvStep, DeltaNetStep> work;
  std::vector<std::pair<tensor::ValueId, CellId>> values;  // what it makes, for the observer
};

struct Plan {
  std::vector<Cell> cells;
  std::vector<Step> steps;
  size_t bytes_per_row = 0;  // of all cells together
  size_t scratch_bytes = 0;  // per worker
};

// Everything that the steps point to: must outlive them.
struct Weights {
  std::vector<tensor::WeightView> views;
  // What is read as plain floats: norm weights, biases, sinks; taps of convolutions as [kernel][column]. Empty for
  // matrices.
  std::vector<std::vector<float>> vectors;
};

// Decodes the weights that are read as plain vectors.
Result<Weights> bind_weights(const tensor::Program& program, std::span<const tensor::WeightView> views);

// The weights that rows of activations are multiplied with, each once, in the order of their first use.
std::vector<tensor::WeightId> product_weights(const tensor::Program& program);

struct PlanOptions {
  int n_workers = 1;
  bool fused = true;  // false: one step per operation, in program order, so that an observer can look at each value
};

// `program` must outlive the plan too. Errors: kUnsupported with the name of the weight.
Result<Plan> make_plan(const tensor::Program& program, const Weights& weights, const kernels::Isa& isa,
                       const PlanOptions& options);

// Lets all steps use `copy` where they use `weight` or parts of it: the same values in another layout.
void exchange_weight(Plan& plan, const tensor::WeightView& weight, const tensor::WeightView& copy);

}  // namespace tempo9::backends::cpu
