#include "tensor/op_fields.h"

#include <gtest/gtest.h>

#include <utility>
#include <variant>

namespace tempo9::tensor {
namespace {

// Stands for a value of any type in an initialiser.
struct Anything {
  template <class T>
  operator T() const;  // NOLINT: implicit on purpose, and never called
};

template <class T, size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

// How many fields the struct has.
template <class T, size_t kMax = 24>
constexpr size_t n_fields() {
  if constexpr (takes<T>(std::make_index_sequence<kMax>{})) {
    return kMax;
  } else {
    return n_fields<T, kMax - 1>();
  }
}

struct Counter {
  size_t n = 0;
  void input(const ValueId&) { ++n; }
  void output(const ValueId&) { ++n; }
  void weight(const WeightId&) { ++n; }
  void frequencies(const int32_t&) { ++n; }
  void axes(const int32_t&) { ++n; }
  void kv_layer(const int32_t&) { ++n; }
  void state_layer(const int32_t&) { ++n; }
  void plain(const auto&) { ++n; }
};

template <class O>
void expect_all_fields() {
  Counter counter;
  const O op{};
  visit_fields(op, counter);
  EXPECT_EQ(counter.n, n_fields<O>()) << typeid(O).name();
}

template <size_t... I>
void expect_all_fields_of_ops(std::index_sequence<I...>) {
  (expect_all_fields<std::variant_alternative_t<I, Op>>(), ...);
}

TEST(OpFields, NoneIsLeftOut) {
  static_assert(n_fields<Add>() == 3 && n_fields<Experts>() == 13);
  expect_all_fields_of_ops(std::make_index_sequence<std::variant_size_v<Op>>{});
}

}  // namespace
}  // namespace tempo9::tensor
