// Attention over pages of Q8_0 over the ISA's vec.h and matmul_vec.h. Included by isa/<name>/attention_q8.cpp after both.

#pragma once

#include "kernels/generic/attention.inl"
#include "kernels/generic/query_codes.h"

namespace tempo9::kernels::T9_ISA {
namespace {

#include "kernels/generic/quantize.inl"
#include "kernels/generic/attention_q8_scores.inl"

}  // namespace
}  // namespace tempo9::kernels::T9_ISA

#include "kernels/generic/attention_q8.inl"
