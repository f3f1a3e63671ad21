// A tower's arithmetic by the kernels of one instruction set (kernels/kernels.h), spread over a pool of threads. No sum
// is ever split, so the number of threads changes no bit.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/kernels.h"
#include "tensor/kv_view.h"
#include "vision/arithmetic.h"

namespace tempo9::vision {

// Memory that a pass needs besides its rows. It is kept from pass to pass.
struct CpuScratch {
  std::vector<std::byte> quantized;
  std::vector<std::byte> k_pages, v_pages;
  std::vector<int32_t> page_ids;
};

class CpuArithmetic final : public Arithmetic {
 public:
  // Everything given must outlive it. `attention_type` is what keys and values are held in: kF16, or kF32 for exact
  // sums of exact values.
  CpuArithmetic(const kernels::Isa& isa, tensor::KvType attention_type, ThreadPool& pool, CpuScratch& scratch,
                std::stop_token stop)
      : isa_(isa), attention_type_(attention_type), pool_(pool), scratch_(scratch), stop_(std::move(stop)) {}

  void linear(const Linear& linear, tensor::MatView<const float> x, tensor::MatView<float> out) override;
  void attention(const AttentionInput& input) override;
  void activate(Activation activation, const float* x, const float* by, float* out, int64_t n) const override;
  void for_rows(int64_t n, const std::function<void(tensor::IndexRange)>& f) override;
  bool is_stopped() const override { return stop_.stop_requested(); }

 private:
  const kernels::Isa& isa_;
  const tensor::KvType attention_type_;
  ThreadPool& pool_;
  CpuScratch& scratch_;
  const std::stop_token stop_;
};

}  // namespace tempo9::vision
