// The fields of every op by their kind, for code that treats all ops alike: saving them, checking them, listing what
// they read. An op that is not here does not compile in such code; a field that is missing fails a test.
#pragma once

#include <concepts>
#include <type_traits>

#include "tensor/ops.h"

namespace tempo9::tensor {

template <class T, class O>
concept OpOf = std::same_as<std::remove_const_t<T>, O>;

// Calls, for each field of `op` (const or not) in the order of its declaration, one of
//   f.input(ValueId), f.output(ValueId), f.weight(WeightId), f.frequencies(int32_t), f.axes(int32_t),
//   f.kv_layer(int32_t), f.state_layer(int32_t): indices, which may be kNone where the op allows that
//   f.plain(x): integers, floats and enumerators
// with a reference to it.
template <OpOf<Embed> O, class F>
void visit_fields(O& op, F&& f) {
  f.weight(op.table);
  f.output(op.out);
  f.plain(op.scale);
}
template <OpOf<RmsNorm> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.weight(op.weight);
  f.output(op.out);
  f.plain(op.eps);
  f.plain(op.group);
}
template <OpOf<MatMul> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.weight(op.weight);
  f.weight(op.bias);
  f.output(op.out);
}
template <OpOf<Add> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.a);
  f.input(op.b);
  f.output(op.out);
}
template <OpOf<Rope> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.output(op.out);
  f.frequencies(op.frequencies);
  f.axes(op.axes);
  f.plain(op.head_dim);
  f.plain(op.n_rot);
  f.plain(op.pairs);
  f.plain(op.magnitude);
}
template <OpOf<KvWrite> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.k);
  f.input(op.v);
  f.kv_layer(op.kv_layer);
}
template <OpOf<Attention> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.q);
  f.output(op.out);
  f.kv_layer(op.kv_layer);
  f.plain(op.n_heads);
  f.plain(op.scale);
  f.plain(op.window);
  f.plain(op.softcap);
  f.weight(op.sinks);
}
template <OpOf<GatedActivation> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.gate);
  f.input(op.up);
  f.output(op.out);
  f.plain(op.activation);
}
template <OpOf<SelectOutputs> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.output(op.out);
}
template <OpOf<SoftCap> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.output(op.out);
  f.plain(op.cap);
}
template <OpOf<Scale> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.weight(op.by);
  f.output(op.out);
  f.plain(op.factor);
}
template <OpOf<TakeColumns> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.output(op.out);
  f.plain(op.group);
  f.plain(op.begin);
  f.plain(op.count);
}
template <OpOf<Concat> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.a);
  f.input(op.b);
  f.output(op.out);
}
template <OpOf<GateRows> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.gate);
  f.input(op.x);
  f.output(op.out);
}
template <OpOf<PositionScale> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.output(op.out);
  f.plain(op.beta);
  f.plain(op.period);
}
template <OpOf<Experts> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.input(op.router);
  f.output(op.out);
  f.weight(op.gate);
  f.weight(op.up);
  f.weight(op.down);
  f.weight(op.gate_bias);
  f.weight(op.up_bias);
  f.weight(op.down_bias);
  f.weight(op.expert_scale);
  f.plain(op.n_used);
  f.plain(op.weight_scale);
  f.plain(op.activation);
}
template <OpOf<CausalConv> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.weight(op.weight);
  f.output(op.out);
  f.state_layer(op.state_layer);
}
template <OpOf<DeltaNet> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.qkv);
  f.input(op.beta);
  f.input(op.alpha);
  f.weight(op.a);
  f.weight(op.dt);
  f.output(op.out);
  f.state_layer(op.state_layer);
  f.plain(op.n_k_heads);
  f.plain(op.n_v_heads);
  f.plain(op.k_dim);
  f.plain(op.v_dim);
}
template <OpOf<Input> O, class F>
void visit_fields(O& op, F&& f) {
  f.output(op.out);
  f.plain(op.cols);
}
template <OpOf<AddEmbedding> O, class F>
void visit_fields(O& op, F&& f) {
  f.input(op.x);
  f.output(op.out);
  f.plain(op.begin);
}

}  // namespace tempo9::tensor
