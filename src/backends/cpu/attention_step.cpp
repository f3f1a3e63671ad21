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
  Attend(const AttentionStep& step, const Pass& pass, int worker)
      : step_(step),
        shape_(step.shape),
        pass_(pass),
        layer_(pass.batch.kv.layers[static_cast<size_t>(step.kv_layer)]),
        q_(pass.view(step.q, shape_.n_heads * shape_.k_head_dim, worker)),
        out_(pass.view(step.out, shape_.n_heads * shape_.v_head_dim, worker)) {
    T9_DCHECK(layer_.type == tensor::KvType::kF16);
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
  int64_t max_spans() const {
    int64_t n = 0;
    for (const RowBlock& block : pass_.row_blocks) n = std::max(n, spans_of(block).end - spans_of(block).begin);
    return n;
  }
  int64_t state_floats() const {
    int64_t rows = 0;
    for (const RowBlock& block : pass_.row_blocks) rows = std::max(rows, block.rows);
    return attention_state_floats(rows * group(), shape_.v_head_dim);
  }
  void run_span(int64_t unit, int64_t index, float* states) const {
    const RowBlock& block = pass_.row_blocks[static_cast<size_t>(unit / shape_.n_kv_heads)];
    const SpanRange spans = spans_of(block);
    if (spans.begin + index >= spans.end) return;
    kernels().attend_span(shape_, rows_of(block), unit % shape_.n_kv_heads, spans.begin + index,
                          attention_state(states, vectors_of(block)));
  }
  // `states` are those of the unit's spans, `stride` floats apart.
  void merge_unit(int64_t unit, float* states, int64_t stride) const {
    const RowBlock& block = pass_.row_blocks[static_cast<size_t>(unit / shape_.n_kv_heads)];
    const SpanRange spans = spans_of(block);
    const int64_t n_vectors = vectors_of(block);
    const kernels::AttentionState total = attention_state(states, n_vectors);
    for (int64_t i = 1; i < spans.end - spans.begin; ++i) {
      kernels().merge(shape_, n_vectors, attention_state(states + i * stride, n_vectors), total);
    }
    finish(block, unit % shape_.n_kv_heads, total);
  }

 private:
  const kernels::AttentionKernels& kernels() const { return *pass_.isa.attention_f16; }
  int64_t group() const { return shape_.n_heads / shape_.n_kv_heads; }
  int64_t vectors_of(const RowBlock& block) const { return block.rows * group(); }

  // From the span of the first key that the block's first row sees to that of its last row's own.
  SpanRange spans_of(const RowBlock& block) const {
    const int64_t first_slot = pass_.batch.slots[static_cast<size_t>(block.begin)];
    const int64_t last_slot = pass_.batch.slots[static_cast<size_t>(block.begin + block.rows - 1)];
    const int64_t first_key = shape_.window > 0 ? std::max<int64_t>(0, first_slot - shape_.window + 1) : 0;
    return {first_key / kernels::kSpanTokens, last_slot / kernels::kSpanTokens + 1};
  }

  kernels::AttentionRows rows_of(const RowBlock& block) const {
    const int32_t sequence = pass_.batch.sequences[static_cast<size_t>(block.begin)];
    return {.q = q_.row(block.begin),
            .q_stride = q_.stride,
            .slots = pass_.batch.slots.data() + block.begin,
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

void run_step(const AttentionStep& step, const Pass& pass, ThreadPool::Worker& worker) {
  const Attend attend(step, pass, worker.index());
  const int64_t n_units = attend.n_units();
  const int64_t n_spans = attend.max_spans();
  const int64_t stride = attend.state_floats();
  // With two units per worker the threads are busy without splitting, which saves a barrier.
  const bool by_spans = worker.count() > 1 && n_spans > 1 && n_units < 2 * worker.count() &&
                        n_units * n_spans * stride <= std::ssize(pass.span_states);
  if (by_spans) {
    const auto states = [&](int64_t unit) { return pass.span_states.data() + unit * n_spans * stride; };
    worker.for_chunks(n_units * n_spans, [&](int64_t chunk) {
      const int64_t unit = chunk / n_spans;
      const int64_t span = chunk % n_spans;
      attend.run_span(unit, span, states(unit) + span * stride);
    });
    worker.barrier();
    worker.for_chunks(n_units, [&](int64_t unit) { attend.merge_unit(unit, states(unit), stride); });
  } else {
    const WorkerMemory& memory = pass.workers[static_cast<size_t>(worker.index())];
    worker.for_chunks(n_units, [&](int64_t unit) { attend.run_unit(unit, memory); });
  }
  worker.barrier();
}

}  // namespace tempo9::backends::cpu
