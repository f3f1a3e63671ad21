#include "vision/positions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace tempo9::vision {
namespace {

// Two rows of the table and how much of each: the corners of the grids coincide.
using Between = std::array<std::pair<int64_t, float>, 2>;
Between between(int64_t i, int64_t n, int64_t n_rows) {
  const int64_t last = n_rows - 1;
  const double at = n == 1 ? 0.0 : static_cast<double>(i * last) / static_cast<double>(n - 1);
  const auto floor = static_cast<int64_t>(at);
  const auto above = static_cast<float>(at - static_cast<double>(floor));
  return {{{floor, 1.0f - above}, {std::min(floor + 1, last), above}}};
}

void add_row_of_table(const TowerSpec& spec, int64_t index, float weight, float* x) {
  const float* row = spec.position_table.data() + index * spec.width;
  for (int64_t c = 0; c < spec.width; ++c) x[c] += weight * row[c];
}

}  // namespace

void add_position(const TowerSpec& spec, const Patches& patches, int64_t r, float* row) {
  const int64_t y = patches.y[static_cast<size_t>(r)], x = patches.x[static_cast<size_t>(r)];
  if (spec.positions == PositionTable::kPerAxis) {
    add_row_of_table(spec, std::min(x, spec.position_rows - 1), 1.0f, row);
    add_row_of_table(spec, spec.position_rows + std::min(y, spec.position_rows - 1), 1.0f, row);
    return;
  }
  const Between vertical = between(y, patches.grid.height * spec.merge, spec.position_rows);
  const Between horizontal = between(x, patches.grid.width * spec.merge, spec.position_rows);
  for (const auto& [table_y, weight_y] : vertical) {
    for (const auto& [table_x, weight_x] : horizontal) {
      if (weight_y * weight_x != 0.0f) {
        add_row_of_table(spec, table_y * spec.position_rows + table_x, weight_y * weight_x, row);
      }
    }
  }
}

Rotations make_rotations(const TowerSpec& spec, const Patches& patches) {
  const auto n_pairs = static_cast<int64_t>(spec.rotary.size());
  Rotations rotations;
  rotations.cosines.resize(static_cast<size_t>(patches.n_rows * n_pairs));
  rotations.sines.resize(rotations.cosines.size());
  for (int64_t r = 0; r < patches.n_rows; ++r) {
    for (int64_t i = 0; i < n_pairs; ++i) {
      const RotaryPair& pair = spec.rotary[static_cast<size_t>(i)];
      const int32_t position = (pair.axis == 0 ? patches.y : patches.x)[static_cast<size_t>(r)];
      rotations.cosines[static_cast<size_t>(r * n_pairs + i)] = static_cast<float>(std::cos(position * pair.frequency));
      rotations.sines[static_cast<size_t>(r * n_pairs + i)] = static_cast<float>(std::sin(position * pair.frequency));
    }
  }
  return rotations;
}

}  // namespace tempo9::vision
