#include "vision/forward.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "vision/positions.h"

namespace tempo9::vision {
namespace {

using tensor::IndexRange;
using tensor::MatView;

// Owns rows of floats.
struct Rows {
  Rows(int64_t rows, int64_t cols)
      : values(static_cast<size_t>(rows * cols)),
        view{.data = values.data(), .rows = rows, .cols = cols, .stride = cols} {}
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  std::vector<float> values;
  MatView<float> view;
};

MatView<float> columns(MatView<float> x, int64_t begin, int64_t count) {
  return {.data = x.data + begin, .rows = x.rows, .cols = count, .stride = x.stride};
}

// The same memory as rows of `n` rows side by side.
MatView<float> join_rows(MatView<float> x, int64_t n) {
  T9_DCHECK(x.stride == x.cols);
  return {.data = x.data, .rows = x.rows / n, .cols = x.cols * n, .stride = x.cols * n};
}

// Sums in eight parts, which compilers keep in a vector.
template <class F>
float sum_of(int64_t n, F&& term) {
  float parts[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t j = 0; j < 8; ++j) parts[j] += term(i + j);
  }
  for (int64_t j = 0; i + j < n; ++j) parts[j] += term(i + j);
  float sum = 0.0f;
  for (const float part : parts) sum += part;
  return sum;
}

// One row; out may be x.
void norm_row(NormKind kind, const Norm& norm, float eps, const float* x, int64_t n, float* out) {
  const auto count = static_cast<float>(n);
  const float mean = kind == NormKind::kLayer ? sum_of(n, [&](int64_t i) { return x[i]; }) / count : 0.0f;
  const float square = sum_of(n, [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
  const float scale = 1.0f / std::sqrt(square + eps);
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * scale;
  if (!norm.weight.empty()) {
    for (int64_t i = 0; i < n; ++i) out[i] *= norm.weight[static_cast<size_t>(i)];
  }
  if (!norm.bias.empty()) {
    for (int64_t i = 0; i < n; ++i) out[i] += norm.bias[static_cast<size_t>(i)];
  }
}

bool is_gated(const TowerSpec& spec) {
  return std::ranges::any_of(spec.blocks, [](const Block& block) { return block.gate.is_present(); });
}

class Forward {
 public:
  Forward(const TowerSpec& spec, const Patches& patches, Arithmetic& arithmetic)
      : spec_(spec),
        patches_(patches),
        arithmetic_(arithmetic),
        n_(patches.n_rows),
        x_(n_, spec.width),
        h_(n_, spec.width),
        qkv_(n_, 3 * spec.width),
        mixed_(n_, spec.width),
        up_(n_, spec.ffn_width),
        gate_(is_gated(spec) ? n_ : 0, spec.ffn_width),
        all_rows_{0, n_},
        out_(n_ / (spec.merge * spec.merge), spec.embedding_cols()) {}

  Result<std::vector<float>> run() {
    embed();
    rotations_ = make_rotations(spec_, patches_);
    auto extra = spec_.deepstack.begin();
    for (size_t i = 0; i < spec_.blocks.size() && !arithmetic_.is_stopped(); ++i) {
      attention(spec_.blocks[i]);
      ffn(spec_.blocks[i]);
      if (extra != spec_.deepstack.end() && extra->block == static_cast<int64_t>(i)) add_deepstack(*extra++);
    }
    if (!arithmetic_.is_stopped()) head();
    if (arithmetic_.is_stopped()) return fail(ErrorCode::kCancelled, "the image is not wanted any more");
    return std::move(out_.values);
  }

 private:
  // out = linear of x, within its bounds.
  void apply(const Linear& linear, MatView<const float> x, MatView<float> out) {
    if (std::isfinite(linear.input_min) || std::isfinite(linear.input_max)) {
      Rows bounded(x.rows, x.cols);
      arithmetic_.for_rows(x.rows, [&](IndexRange rows) {
        for (int64_t r = rows.begin; r < rows.end; ++r) {
          clamp(x.row(r), linear.input_min, linear.input_max, x.cols, bounded.view.row(r));
        }
      });
      arithmetic_.linear(linear, bounded.view, out);
    } else {
      arithmetic_.linear(linear, x, out);
    }
    if (!std::isfinite(linear.output_min) && !std::isfinite(linear.output_max)) return;
    each_row(out, [&](float* row) { clamp(row, linear.output_min, linear.output_max, out.cols, row); });
  }

  static void clamp(const float* x, float min, float max, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = std::min(std::max(x[i], min), max);
  }

  template <class F>
  void each_row(MatView<float> x, F&& f) {
    arithmetic_.for_rows(x.rows, [&](IndexRange rows) {
      for (int64_t r = rows.begin; r < rows.end; ++r) f(x.row(r));
    });
  }

  void norm(const Norm& norm, MatView<const float> x, MatView<float> out) {
    arithmetic_.for_rows(x.rows, [&](IndexRange rows) {
      for (int64_t r = rows.begin; r < rows.end; ++r)
        norm_row(spec_.norm, norm, spec_.eps, x.row(r), x.cols, out.row(r));
    });
  }

  void activate(Activation activation, MatView<float> x, const float* by = nullptr) {
    arithmetic_.for_rows(x.rows, [&](IndexRange rows) {
      const int64_t begin = rows.begin * x.stride;
      arithmetic_.activate(activation, x.data + begin, by == nullptr ? nullptr : by + begin, x.data + begin,
                           rows.size() * x.stride);
    });
  }

  // x += y
  void add(MatView<float> x, MatView<const float> y) {
    arithmetic_.for_rows(x.rows, [&](IndexRange rows) {
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        for (int64_t c = 0; c < x.cols; ++c) x.row(r)[c] += y.row(r)[c];
      }
    });
  }

  // --- Patches

  void embed() {
    const MatView<const float> pixels{
        .data = patches_.pixels.data(), .rows = n_, .cols = spec_.patch_values(), .stride = spec_.patch_values()};
    apply(spec_.patch_embed, pixels, x_.view);
    if (spec_.positions == PositionTable::kNone) return;
    arithmetic_.for_rows(n_, [&](IndexRange rows) {
      for (int64_t r = rows.begin; r < rows.end; ++r) add_position(spec_, patches_, r, x_.view.row(r));
    });
  }

  // --- Blocks

  void rotate(int64_t r, float* head) const {
    const size_t begin = static_cast<size_t>(r) * spec_.rotary.size();
    for (size_t i = 0; i < spec_.rotary.size(); ++i) {
      const RotaryPair& pair = spec_.rotary[i];
      const float cosine = rotations_.cosines[begin + i], sine = rotations_.sines[begin + i];
      const float a = head[pair.first], b = head[pair.second];
      head[pair.first] = a * cosine - b * sine;
      head[pair.second] = a * sine + b * cosine;
    }
  }

  // Norms and rotations of row r's heads.
  void prepare_heads(const Block& block, int64_t r) {
    static const Norm kNoWeights;
    const int64_t head_dim = spec_.head_dim();
    float* q = qkv_.view.row(r);
    float* k = q + spec_.width;
    float* v = k + spec_.width;
    for (int64_t begin = 0; begin < spec_.width; begin += head_dim) {
      if (spec_.norms_heads) {
        norm_row(NormKind::kRms, block.q_norm, spec_.eps, q + begin, head_dim, q + begin);
        norm_row(NormKind::kRms, block.k_norm, spec_.eps, k + begin, head_dim, k + begin);
        norm_row(NormKind::kRms, kNoWeights, spec_.eps, v + begin, head_dim, v + begin);
      }
      rotate(r, q + begin);
      rotate(r, k + begin);
    }
  }

  void attention(const Block& block) {
    norm(block.norm1, x_.view, h_.view);
    int64_t begin = 0;
    for (const Linear& linear : block.qkv) {
      apply(linear, h_.view, columns(qkv_.view, begin, linear.weight.rows));
      begin += linear.weight.rows;
    }
    arithmetic_.for_rows(n_, [&](IndexRange rows) {
      for (int64_t r = rows.begin; r < rows.end; ++r) prepare_heads(block, r);
    });
    arithmetic_.attention({.q = columns(qkv_.view, 0, spec_.width),
                           .k = columns(qkv_.view, spec_.width, spec_.width),
                           .v = columns(qkv_.view, 2 * spec_.width, spec_.width),
                           .out = mixed_.view,
                           .n_heads = spec_.n_heads,
                           .scale = spec_.attention_scale,
                           .ranges = block.is_windowed ? std::span(patches_.windows) : std::span(&all_rows_, 1),
                           .n_real = patches_.n_real});
    apply(block.out, mixed_.view, h_.view);
    if (spec_.norms_branches) norm(block.after_attention, h_.view, h_.view);
    add(x_.view, h_.view);
  }

  void ffn(const Block& block) {
    norm(block.norm2, x_.view, h_.view);
    apply(block.up, h_.view, up_.view);
    if (block.gate.is_present()) {
      apply(block.gate, h_.view, gate_.view);
      activate(spec_.activation, gate_.view, up_.values.data());
      apply(block.down, gate_.view, h_.view);
    } else {
      activate(spec_.activation, up_.view);
      apply(block.down, up_.view, h_.view);
    }
    if (spec_.norms_branches) norm(block.after_ffn, h_.view, h_.view);
    add(x_.view, h_.view);
    if (block.scale != 1.0f) {
      each_row(x_.view, [&](float* row) {
        for (int64_t c = 0; c < spec_.width; ++c) row[c] *= block.scale;
      });
    }
  }

  // --- Tokens

  MatView<float> out_columns(int64_t part) { return columns(out_.view, part * spec_.out_width(), spec_.out_width()); }

  // fc2 gelu(fc1 x)
  void merge(const Linear& fc1, const Linear& fc2, MatView<const float> x, MatView<float> out) {
    Rows hidden(x.rows, fc1.weight.rows);
    apply(fc1, x, hidden.view);
    activate(Activation::kGeluErf, hidden.view);
    apply(fc2, hidden.view, out);
  }

  void add_deepstack(const Deepstack& extra) {
    Rows merged(out_.view.rows, spec_.width * spec_.merge * spec_.merge);
    norm(extra.norm, join_rows(x_.view, spec_.merge * spec_.merge), merged.view);
    merge(extra.fc1, extra.fc2, merged.view, out_columns(1 + (&extra - spec_.deepstack.data())));
  }

  void head() {
    if (spec_.has_post_norm) norm(spec_.post_norm, x_.view, x_.view);
    if (spec_.head == Head::kMergeMlp) {
      merge(spec_.fc1, spec_.fc2, join_rows(x_.view, spec_.merge * spec_.merge), out_columns(0));
      return;
    }
    Rows pooled(out_.view.rows, spec_.width);
    arithmetic_.for_rows(pooled.view.rows, [&](IndexRange rows) {
      for (int64_t r = rows.begin; r < rows.end; ++r) pool(r, pooled.view.row(r));
    });
    apply(spec_.fc2, pooled.view, out_columns(0));
  }

  // The mean of a token's patches, scaled, shifted and normed.
  void pool(int64_t token, float* out) {
    const int64_t n = spec_.merge * spec_.merge;
    for (int64_t i = 0; i < n; ++i) {
      const float* row = x_.view.row(token * n + i);
      for (int64_t c = 0; c < spec_.width; ++c) out[c] += row[c];
    }
    const float factor = spec_.pool_scale / static_cast<float>(n);
    for (int64_t c = 0; c < spec_.width; ++c) {
      out[c] *= factor;
      if (!spec_.pool_bias.empty()) out[c] -= spec_.pool_bias[static_cast<size_t>(c)];
      if (!spec_.pool_gain.empty()) out[c] *= spec_.pool_gain[static_cast<size_t>(c)];
    }
    norm_row(NormKind::kRms, spec_.pool_norm, spec_.eps, out, spec_.width, out);
  }

  const TowerSpec& spec_;
  const Patches& patches_;
  Arithmetic& arithmetic_;
  const int64_t n_;
  Rows x_;
  Rows h_;
  Rows qkv_;
  Rows mixed_;
  Rows up_;
  Rows gate_;
  const IndexRange all_rows_;
  Rows out_;
  Rotations rotations_;
};

}  // namespace

Result<std::vector<float>> forward(const TowerSpec& spec, const Patches& patches, Arithmetic& arithmetic) {
  return Forward(spec, patches, arithmetic).run();
}

}  // namespace tempo9::vision
