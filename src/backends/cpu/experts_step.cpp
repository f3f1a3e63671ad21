// Experts steps. The rows go through the experts sorted, so that an expert's weights are read once for all rows that
// chose it; which rows share a call cannot change a bit. Results stay apart, one row per pair of (row, expert), until
// the row adds its own in its own order (CombineOp).
#include <algorithm>

#include "backends/cpu/chunk_sizes.h"
#include "backends/cpu/product.h"

namespace tempo9::backends::cpu {
namespace {

using tensor::IndexRange;
using tensor::MatView;

IndexRange part_of(int64_t n, int64_t size, int64_t index) { return {index * size, std::min(n, (index + 1) * size)}; }

// Rows [rows.begin, rows.end) of an expert, as a weight of their own, and where the bias of a row begins.
tensor::WeightView weight_of(const Product& product, int64_t expert, IndexRange rows) {
  tensor::WeightView part = product.weight;
  part.data = part.row(expert * part.rows + rows.begin);
  part.rows = rows.size();
  part.depth = 1;
  return part;
}
const float* bias_of(const Product& product, int64_t expert, int64_t row) {
  return product.bias == nullptr ? nullptr : product.bias + expert * product.weight.rows + row;
}

class RunExperts {
 public:
  RunExperts(const ExpertsStep& step, const Pass& pass)
      : step_(step),
        pass_(pass),
        n_rows_(pass.n_rows(step.rows)),
        n_pairs_(n_rows_ * step.n_used),
        tiles_(expert_tiles(pass.data(step.tiles), n_pairs_)) {}

  int64_t n_rows() const { return n_rows_; }
  int64_t n_inner_chunks() const { return *tiles_.count * n_parts(step_.n_inner, inner_panel()); }
  int64_t n_down_chunks() const { return *tiles_.count * n_parts(step_.down.weight.rows, down_panel()); }

  // Puts the pairs in order of their experts, those of one expert in order of the rows, and cuts them to tiles.
  void sort(int worker) const {
    auto* ends = reinterpret_cast<int32_t*>(pass_.workers[static_cast<size_t>(worker)].scratch);
    std::fill_n(ends, step_.n_experts, 0);
    for (int64_t r = 0; r < n_rows_; ++r) {
      const int32_t* experts = choices(r).experts;
      for (int64_t i = 0; i < step_.n_used; ++i) ++ends[experts[i]];
    }
    int32_t begin = 0;
    *tiles_.count = 0;
    for (int64_t e = 0; e < step_.n_experts; ++e) {
      const int32_t end = begin + ends[e];
      ends[e] = begin;  // moves to the end while the pairs are placed
      for (int32_t first = begin; first < end; first += static_cast<int32_t>(step_.tile_rows)) {
        tiles_.tiles[(*tiles_.count)++] = {.expert = static_cast<int32_t>(e),
                                           .first = first,
                                           .size = std::min(end - first, static_cast<int32_t>(step_.tile_rows))};
      }
      begin = end;
    }
    for (int64_t r = 0; r < n_rows_; ++r) {
      const ExpertChoices chosen = choices(r);
      for (int64_t i = 0; i < step_.n_used; ++i) {
        const int32_t place = ends[chosen.experts[i]]++;
        tiles_.rows[place] = static_cast<int32_t>(r);
        chosen.places[i] = place;
      }
    }
  }

  // A panel of gate and up rows for the pairs of a tile, and the activation over them, as `down` reads it.
  void run_inner(int64_t chunk, int worker) const {
    chunk = in_turn(chunk, n_inner_chunks());
    const int64_t n_panels = n_parts(step_.n_inner, inner_panel());
    const ExpertTile& tile = tiles_.tiles[chunk / n_panels];
    const IndexRange cols = part_of(step_.n_inner, inner_panel(), chunk % n_panels);
    const MatView<float> gate = buffer(worker, 0, tile.size, cols.size());
    const MatView<float> up = buffer(worker, gate.rows * gate.cols, tile.size, cols.size());
    multiply_rows(step_.gate, tile, cols, gate, worker);
    multiply_rows(step_.up, tile, cols, up, worker);
    for (int64_t i = 0; i < tile.size; ++i) {
      pass_.isa.rows->gated(step_.activation, gate.row(i), up.row(i), gate.row(i), cols.size());
      store_inner(tile.first + i, cols, gate.row(i));
    }
  }

  // A panel of down rows for the pairs of a tile.
  void run_down(int64_t chunk, int worker) const {
    chunk = in_turn(chunk, n_down_chunks());
    const Product& down = step_.down;
    const int64_t n_cols = down.weight.rows;
    const int64_t n_panels = n_parts(n_cols, down_panel());
    const ExpertTile& tile = tiles_.tiles[chunk / n_panels];
    auto* results = reinterpret_cast<float*>(pass_.data(step_.results));
    multiply(down, weight_of(down, tile.expert, {0, n_cols}), bias_of(down, tile.expert, 0),
             part_of(n_cols, down_panel(), chunk % n_panels), slice(inner(), {tile.first, tile.first + tile.size}),
             {results + tile.first * n_cols, tile.size, n_cols, n_cols}, pass_, worker);
  }

 private:
  // On average: all tiles have the same panels.
  bool has_few_rows() const { return n_pairs_ <= kFewRows * *tiles_.count; }
  int64_t inner_panel() const { return has_few_rows() ? step_.inner_panel_few : step_.inner_panel_many; }
  int64_t down_panel() const { return has_few_rows() ? step_.down_panel_few : step_.down_panel_many; }
  int64_t in_turn(int64_t chunk, int64_t n_chunks) const {
    return has_few_rows() ? chunk_in_turn(chunk, n_chunks, pass_.n_workers()) : chunk;
  }
  ExpertChoices choices(int64_t row) const { return expert_choices(pass_.row(step_.choices, row), step_.n_used); }

  MatView<float> buffer(int worker, int64_t offset, int64_t rows, int64_t cols) const {
    std::byte* scratch = pass_.workers[static_cast<size_t>(worker)].scratch + step_.buffer_offset;
    return {reinterpret_cast<float*>(scratch) + offset, rows, cols, cols};
  }

  void multiply_rows(const Product& product, const ExpertTile& tile, IndexRange weight_rows, MatView<float> out,
                     int worker) const {
    // To the last of the rows, so that what comes after these can be fetched.
    multiply(product, weight_of(product, tile.expert, {weight_rows.begin, step_.n_inner}),
             bias_of(product, tile.expert, weight_rows.begin), {0, weight_rows.size()},
             pick(act_rows(product, pass_), tiles_.rows + tile.first, tile.size), out, pass_, worker);
  }

  // All pairs as `down` reads them.
  ActRows inner() const {
    std::byte* data = pass_.data(step_.inner);
    const int64_t cols = step_.n_inner;
    if (step_.down.quant != nullptr) {
      return {.quantized = quantized_view(data, step_.down.format, n_pairs_, cols), .floats = {}};
    }
    return {.quantized = {},
            .floats = {.x = reinterpret_cast<float*>(data), .rows = n_pairs_, .cols = cols, .stride = cols}};
  }

  void store_inner(int64_t pair, IndexRange cols, const float* values) const {
    if (step_.down.quant == nullptr) {
      std::copy_n(values, cols.size(),
                  reinterpret_cast<float*>(pass_.data(step_.inner)) + pair * step_.n_inner + cols.begin);
      return;
    }
    kernels::QuantizedRows part = slice(inner(), {pair, pair + 1}).quantized;
    part.q += cols.begin;
    part.d += cols.begin / part.block();
    part.sums += cols.begin / part.sum_group();
    part.cols = cols.size();
    pass_.isa.matmul->quantize({values, 1, cols.size(), cols.size()}, {0, 1}, part);
  }

  const ExpertsStep& step_;
  const Pass& pass_;
  const int64_t n_rows_;
  const int64_t n_pairs_;
  const ExpertTiles tiles_;
};

}  // namespace

int64_t n_chunks(const ExpertsStep& step, const Pass& pass, int64_t phase) {
  const RunExperts run(step, pass);
  if (run.n_rows() == 0) return 0;
  if (phase == 0) return 1;
  return phase == 1 ? run.n_inner_chunks() : run.n_down_chunks();
}

void run_chunk(const ExpertsStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker) {
  const RunExperts run(step, pass);
  if (phase == 0) {
    run.sort(worker);
  } else if (phase == 1) {
    run.run_inner(chunk, worker);
  } else {
    run.run_down(chunk, worker);
  }
}

}  // namespace tempo9::backends::cpu
