// Attention steps. Units of work are (block of rows of one sequence, KV head); when those are too few to go around,
// each span of 512 tokens becomes one, and the spans' states are merged afterwards in the same order as within one
// thread.
#include <algorithm>

#include "backends/cpu/pass.h"
#include "base/check.h"

namespace tempo9::backends::cpu {
namespace {

struct SpanRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Everything about one attention step of a pass.
class Attend {
 public:
  Attend(const AttentionStep& step, const Pass& pass)
      : step_(step),
        shape_(step.shape),
        pass_(pass),
        layer_(pass.batch.kv.layers[static_cast<size_t>(step.kv_layer)]),
        q_(pass.view(step.q, shape_.n_heads * shape_.k_head_dim)),
        out_(pass.view(step.out, shape_.n_heads * shape_.v_head_dim)) {
    T9_DCHECK(layer_.type == tensor::KvType::kF16 || layer_.type == tensor::KvType::kF32);
  }

  int64_t n_units() const { return std::ssize(pass_.row_blocks) * shape_.n_kv_heads; }

  // One unit by one worker. Later blocks see more keys: the long ones first.
  void run_unit(int64_t unit, const WorkerMemory& memory) const {
    const RowBlock& block =
        pass_.row_blocks[static_cast<size_t>(std::ssize(pass_.row_blocks) - 1 - unit / shape_.n_kv_heads)];
    const int64_t head = unit % shape_.n_kv_heads;
    const kernels::AttentionRows rows = rows_of(block);
    const SpanRange spans = spans_of(block);
    const int64_t n_vectors = vectors_of(block);
    const kernels::AttentionState total = attention_state(memory.total, n_vectors);
    const kernels::AttentionState part = attention_state(memory.part, n_vectors);
    kernels().attend_span(shape_, rows, head, spans.begin, total);
    for (int64_t span = spans.begin + 1; span < spans.end; ++span) {
      kernels().attend_span(shape_, rows, head, span, part);
      kernels().merge(shape_, n_vectors, part, total);
    }
    finish(block, head, total);
  }

  // --- By spans: unit * max_spans() + span is a chunk of the first phase, a unit one of the second.
  // With two units per worker the threads are busy without splitting, which saves a stage.
  bool is_by_spans() const {
    return pass_.n_workers() > 1 && n_units() < 2 * pass_.n_workers() && max_spans() > 1 &&
           n_units() * max_spans() * state_floats() <= std::ssize(pass_.span_states);
  }
  int64_t max_spans() const {
    int64_t n = 0;
    for (const RowBlock& block : pass_.row_blocks) n = std::max(n, spans_of(block).end - spans_of(block).begin);
    return n;
  }
  void run_span(int64_t chunk) const {
    const int64_t unit = chunk / max_spans();
    const int64_t index = chunk % max_spans();
    const RowBlock& block = pass_.row_blocks[static_cast<size_t>(unit / shape_.n_kv_heads)];
    const SpanRange spans = spans_of(block);
    if (spans.begin + index >= spans.end) return;
    kernels().attend_span(shape_, rows_of(block), unit % shape_.n_kv_heads, spans.begin + index,
                          attention_state(span_state(unit, index), vectors_of(block)));
  }
  void merge_unit(int64_t unit) const {
    const RowBlock& block = pass_.row_blocks[static_cast<size_t>(unit / shape_.n_kv_heads)];
    const SpanRange spans = spans_of(block);
    const int64_t n_vectors = vectors_of(block);
    const kernels::AttentionState total = attention_state(span_state(unit, 0), n_vectors);
    for (int64_t i = 1; i < spans.end - spans.begin; ++i) {
      kernels().merge(shape_, n_vectors, attention_state(span_state(unit, i), n_vectors), total);
    }
    finish(block, unit % shape_.n_kv_heads, total);
  }

 private:
  const kernels::AttentionKernels& kernels() const { return pass_.isa.attention(layer_.type); }
  int64_t group() const { return shape_.n_heads / shape_.n_kv_heads; }
  int64_t vectors_of(const RowBlock& block) const { return block.rows * group(); }

  // The state of span `index` of a unit.
  float* span_state(int64_t unit, int64_t index) const {
    return pass_.span_states.data() + (unit * max_spans() + index) * state_floats();
  }
  int64_t state_floats() const {
    int64_t rows = 0;
    for (const RowBlock& block : pass_.row_blocks) rows = std::max(rows, block.rows);
    return attention_state_floats(rows * group(), shape_.v_head_dim);
  }

  // From the span of the first key that the block's first row sees to that of the last one that its last row does.
  SpanRange spans_of(const RowBlock& block) const {
    const int64_t first_slot = pass_.batch.slots[static_cast<size_t>(block.begin)];
    const int64_t last_key = pass_.batch.visible_end(block.begin + block.rows - 1) - 1;
    const int64_t first_key = shape_.window > 0 ? std::max<int64_t>(0, first_slot - shape_.window + 1) : 0;
    return {first_key / kernels::kSpanTokens, last_key / kernels::kSpanTokens + 1};
  }

  kernels::AttentionRows rows_of(const RowBlock& block) const {
    const int32_t sequence = pass_.batch.sequences[static_cast<size_t>(block.begin)];
    return {.q = q_.row(block.begin),
            .q_stride = q_.stride,
            .slots = pass_.batch.slots.data() + block.begin,
            .ends = pass_.batch.visible_ends.empty() ? nullptr : pass_.batch.visible_ends.data() + block.begin,
            .n_rows = block.rows,
            .pages = pass_.batch.kv.table(layer_.pool, sequence).pages.data(),
            .k = layer_.k,
            .v = layer_.v,
            .k_page_bytes = layer_.k_page_bytes,
            .v_page_bytes = layer_.v_page_bytes};
  }

  void finish(const RowBlock& block, int64_t head, const kernels::AttentionState& state) const {
    kernels().finish(shape_, block.rows, head, state, step_.sinks, out_.row(block.begin), out_.stride);
  }

  const AttentionStep& step_;
  const kernels::AttentionShape& shape_;
  const Pass& pass_;
  const tensor::KvLayerView& layer_;
  const tensor::MatView<float> q_;
  const tensor::MatView<float> out_;
};

}  // namespace

int64_t n_chunks(const AttentionStep& step, const Pass& pass, int64_t phase) {
  const Attend attend(step, pass);
  if (!attend.is_by_spans()) return phase == 0 ? attend.n_units() : 0;
  return phase == 0 ? attend.n_units() * attend.max_spans() : attend.n_units();
}

void run_chunk(const AttentionStep& step, const Pass& pass, int64_t phase, int64_t chunk, int worker) {
  const Attend attend(step, pass);
  if (phase == 1) {
    attend.merge_unit(chunk);
  } else if (attend.is_by_spans()) {
    attend.run_span(chunk);
  } else {
    attend.run_unit(chunk, pass.workers[static_cast<size_t>(worker)]);
  }
}

}  // namespace tempo9::backends::cpu
