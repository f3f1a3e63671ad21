#include "vision/network_inputs.h"

#include <algorithm>
#include <utility>

#include "vision/positions.h"

namespace tempo9::vision {
namespace {

NamedArray make(const char* name, int64_t rows, int64_t cols, float value = 0.0f) {
  return {.name = name, .shape = {rows, cols}, .values = std::vector<float>(static_cast<size_t>(rows * cols), value)};
}

NamedArray positions(const TowerSpec& spec, const Patches& patches) {
  NamedArray array = make("positions", patches.n_rows, spec.width);
  for (int64_t r = 0; r < patches.n_rows; ++r) add_position(spec, patches, r, array.values.data() + r * spec.width);
  return array;
}

// A head turns as x * cosines + partner(x) * sines, where partner exchanges the two elements of each pair; the sine of
// the first has the minus.
std::pair<NamedArray, NamedArray> rotations(const TowerSpec& spec, const Patches& patches) {
  const int64_t cols = spec.head_dim();
  const auto n_pairs = static_cast<int64_t>(spec.rotary.size());
  NamedArray cosines = make("cosines", patches.n_rows, cols, 1.0f), sines = make("sines", patches.n_rows, cols);
  const Rotations turned = make_rotations(spec, patches);
  for (int64_t r = 0; r < patches.n_rows; ++r) {
    for (int64_t i = 0; i < n_pairs; ++i) {
      const RotaryPair& pair = spec.rotary[static_cast<size_t>(i)];
      const auto from = static_cast<size_t>(r * n_pairs + i);
      const auto first = static_cast<size_t>(r * cols + pair.first),
                 second = static_cast<size_t>(r * cols + pair.second);
      cosines.values[first] = cosines.values[second] = turned.cosines[from];
      sines.values[first] = -turned.sines[from];
      sines.values[second] = turned.sines[from];
    }
  }
  return {std::move(cosines), std::move(sines)};
}

NamedArray mask(const Patches& patches) {
  NamedArray array = make("mask", 1, patches.n_rows);
  std::fill(array.values.begin() + patches.n_real, array.values.end(), kHidden);
  return array;
}

NamedArray windows(const Patches& patches) {
  NamedArray array = make("windows", patches.n_rows, patches.n_rows, kHidden);
  for (const tensor::IndexRange window : patches.windows) {
    for (int64_t r = window.begin; r < window.end; ++r) {
      std::fill_n(array.values.begin() + r * patches.n_rows + window.begin, window.size(), 0.0f);
    }
  }
  return array;
}

}  // namespace

std::vector<NamedArray> network_inputs(const TowerSpec& spec, const Patches& patches) {
  std::vector<NamedArray> inputs;
  inputs.push_back({.name = "pixels", .shape = {patches.n_rows, spec.patch_values()}, .values = patches.pixels});
  if (spec.positions != PositionTable::kNone) inputs.push_back(positions(spec, patches));
  if (!spec.rotary.empty()) {
    auto [cosines, sines] = rotations(spec, patches);
    inputs.push_back(std::move(cosines));
    inputs.push_back(std::move(sines));
  }
  const auto is_windowed = [](const Block& block) { return block.is_windowed; };
  if (!std::ranges::all_of(spec.blocks, is_windowed)) inputs.push_back(mask(patches));
  if (std::ranges::any_of(spec.blocks, is_windowed)) inputs.push_back(windows(patches));
  return inputs;
}

}  // namespace tempo9::vision
