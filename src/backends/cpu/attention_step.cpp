// Attention steps. Units of work are (group of blocks of rows, KV head); when those are too few to go around, each span
// of 512 tokens becomes one, and the spans' states are merged afterwards in the same order as within one thread. What
// a group shares is read for all its rows at once, the rest block by block.
#include <algorithm>

#include "backends/cpu/pass.h"

namespace tempo9::backends::cpu {
namespace {

struct SpanRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t first = begin;  // of all that the rows see
};

// Everything about one attention step of a pass.
class Attend {
 public:
  Attend(const AttentionStep& step, const Pass& pass)
      : step_(step),
        shape_(step.shape),
        pass_(pass),
        layer_(pass.batch.kv.layers[static_cast<size_t>(step.kv_layer)]),
        groups_(step.shape.window > 0
                    ? pass.window_groups
                    : std::span<const AttentionGroup>(pass.attention_groups[static_cast<size_t>(layer_.pool)])),
        q_(pass.view(step.q, shape_.n_heads * shape_.k_head_dim)),
        out_(pass.view(step.out, shape_.n_heads * shape_.v_head_dim)) {}

  int64_t n_units() const { return std::ssize(groups_) * shape_.n_kv_heads; }

  // One unit by one worker. Later groups see more keys: the long ones first.
  void run_unit(int64_t unit, const WorkerMemory& memory) const {
    const AttentionGroup& group = groups_[static_cast<size_t>(std::ssize(groups_) - 1 - unit / shape_.n_kv_heads)];
    const int64_t head = unit % shape_.n_kv_heads;
    const kernels::AttentionState total = attention_state(memory.total, vectors_of(group.rows));
    const kernels::AttentionState part = attention_state(memory.part, vectors_of(group.rows));
    attend_spans({0, group.shared_spans}, rows_of(group.begin, group.rows, memory), head, part, total);
    for (const RowBlock& block : blocks_of(group)) {
      const kernels::AttentionState state = part_of(total, group, block);
      attend_spans(own_spans(group, block), rows_of(block.begin, block.rows, memory), head, part, state);
      finish(block, head, state);
    }
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
  void run_span(int64_t chunk, const WorkerMemory& memory) const {
    const int64_t unit = chunk / max_spans();
    const int64_t index = chunk % max_spans();
    const AttentionGroup& group = group_of(unit);
    const int64_t head = unit % shape_.n_kv_heads;
    const kernels::AttentionState state = span_state(unit, index);
    if (index < group.shared_spans) {
      kernels().attend_span(shape_, rows_of(group.begin, group.rows, memory), head, index, state);
      return;
    }
    for (const RowBlock& block : blocks_of(group)) {
      const SpanRange spans = spans_of(block);
      if (spans.begin + index >= spans.end) continue;
      kernels().attend_span(shape_, rows_of(block.begin, block.rows, memory), head, spans.begin + index,
                            part_of(state, group, block));
    }
  }
  void merge_unit(int64_t unit) const {
    const AttentionGroup& group = group_of(unit);
    for (const RowBlock& block : blocks_of(group)) {
      const SpanRange spans = spans_of(block);
      const kernels::AttentionState total = part_of(span_state(unit, 0), group, block);
      for (int64_t i = 1; i < spans.end - spans.begin; ++i) {
        kernels().merge(shape_, vectors_of(block.rows), part_of(span_state(unit, i), group, block), total);
      }
      finish(block, unit % shape_.n_kv_heads, total);
    }
  }

 private:
  const kernels::AttentionKernels& kernels() const { return pass_.isa.attention(layer_.type); }
  int64_t vectors_of(int64_t n_rows) const { return n_rows * (shape_.n_heads / shape_.n_kv_heads); }

  const AttentionGroup& group_of(int64_t unit) const { return groups_[static_cast<size_t>(unit / shape_.n_kv_heads)]; }
  std::span<const RowBlock> blocks_of(const AttentionGroup& group) const {
    return pass_.row_blocks.subspan(static_cast<size_t>(group.first_block), static_cast<size_t>(group.n_blocks));
  }
  // The states of a block's vectors among those of its group.
  kernels::AttentionState part_of(const kernels::AttentionState& state, const AttentionGroup& group,
                                  const RowBlock& block) const {
    const int64_t first = vectors_of(block.begin - group.begin);
    return {.max = state.max + first, .sum = state.sum + first, .values = state.values + first * shape_.v_head_dim};
  }

  // The state of span `index` of a unit, for all rows of its group.
  kernels::AttentionState span_state(int64_t unit, int64_t index) const {
    return attention_state(pass_.span_states.data() + (unit * max_spans() + index) * state_floats(),
                           vectors_of(group_of(unit).rows));
  }
  int64_t state_floats() const {
    int64_t rows = 0;
    for (const AttentionGroup& group : groups_) rows = std::max(rows, group.rows);
    return attention_state_floats(vectors_of(rows), shape_.v_head_dim);
  }

  // Adds the states of `spans` to `total`; the first one of all begins it.
  void attend_spans(SpanRange spans, const kernels::AttentionRows& rows, int64_t head,
                    const kernels::AttentionState& part, const kernels::AttentionState& total) const {
    for (int64_t span = spans.begin; span < spans.end; ++span) {
      const bool is_first = span == spans.first;
      kernels().attend_span(shape_, rows, head, span, is_first ? total : part);
      if (!is_first) kernels().merge(shape_, vectors_of(rows.n_rows), part, total);
    }
  }

  // From the span of the first key that the block's first row sees to that of the last one that its last row does.
  SpanRange spans_of(const RowBlock& block) const {
    const int64_t first_slot = pass_.batch.slots[static_cast<size_t>(block.begin)];
    const int64_t last_key = pass_.batch.visible_end(block.begin + block.rows - 1) - 1;
    const int64_t first_key = shape_.window > 0 ? std::max<int64_t>(0, first_slot - shape_.window + 1) : 0;
    return {.begin = first_key / kernels::kSpanTokens, .end = last_key / kernels::kSpanTokens + 1};
  }
  // What a block sees beyond what its group shares.
  SpanRange own_spans(const AttentionGroup& group, const RowBlock& block) const {
    SpanRange spans = spans_of(block);
    spans.begin = std::max(spans.begin, group.shared_spans);
    return spans;
  }

  // Rows of one sequence, or of several whose pages are the same in what is looked at.
  kernels::AttentionRows rows_of(int64_t begin, int64_t n_rows, const WorkerMemory& memory) const {
    const int32_t sequence = pass_.batch.sequences[static_cast<size_t>(begin)];
    return {.q = q_.row(begin),
            .q_stride = q_.stride,
            .slots = pass_.batch.slots.data() + begin,
            .ends = pass_.batch.visible_ends.empty() ? nullptr : pass_.batch.visible_ends.data() + begin,
            .n_rows = n_rows,
            .pages = pass_.batch.kv.table(layer_.pool, sequence).pages.data(),
            .k = layer_.k,
            .v = layer_.v,
            .k_page_bytes = layer_.k_page_bytes,
            .v_page_bytes = layer_.v_page_bytes,
            .scratch = memory.scratch};
  }

  void finish(const RowBlock& block, int64_t head, const kernels::AttentionState& state) const {
    kernels().finish(shape_, block.rows, head, state, step_.sinks, out_.row(block.begin), out_.stride);
  }

  const AttentionStep& step_;
  const kernels::AttentionShape& shape_;
  const Pass& pass_;
  const tensor::KvLayerView& layer_;
  const std::span<const AttentionGroup> groups_;
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
  const WorkerMemory& memory = pass.workers[static_cast<size_t>(worker)];
  if (phase == 1) {
    attend.merge_unit(chunk);
  } else if (attend.is_by_spans()) {
    attend.run_span(chunk, memory);
  } else {
    attend.run_unit(chunk, memory);
  }
}

}  // namespace tempo9::backends::cpu
