// exp, tanh, ln, silu and their like over the ISA's vec.h: our own polynomials with one written order of fused
// operations, so that every ISA gives the same bits (numeric contract C3). Coefficients: minimax fits (Remez) of the
// functions named, over the stated interval, weighted for relative error. Included by isa/<name>/*.cpp after vec.h.

#pragma once

namespace tempo9::kernels::T9_ISA {

// e^x within 1 ulp, and 1 exactly at 0; gradual underflow to 0 below -103.97, infinity above 88.72.
// x = n ln2 + r with |r| <= ln2 / 2; e^r = 1 + r + r^2 q(r), with the error of q below 0.06 * 2^-24.
T9_VEC Vec exp(Vec x) {
  // Beyond these the result is 0 and infinity. min and max give their second operand if x is not a number.
  x = min(splat(90.0f), max(splat(-106.0f), x));
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const Vec shifter = splat(0x1.8p23f);
  const Vec shifted = fma(x, splat(0x1.715476p0f), shifter);
  const Vec n = sub(shifted, shifter);
  // ln2 in two floats. The first step is exact: its result is a multiple of 2^-24 (or of ulp(x)) below 1/2.
  Vec r = fma(n, splat(-0x1.62e430p-1f), x);
  r = fma(n, splat(0x1.05c610p-29f), r);
  Vec q = fma(r, splat(0x1.6a234cp-10f), splat(0x1.123a6cp-7f));
  q = fma(r, q, splat(0x1.5558f4p-5f));
  q = fma(r, q, splat(0x1.555490p-3f));
  q = fma(r, q, splat(0x1.fffffcp-2f));
  const Vec e = add(fma(mul(r, r), q, r), splat(1.0f));
  // 2^n as two factors, since n reaches -153 and 130; only the second product can round.
  const IntVec exponent = sub(bits(shifted), bits(shifter));
  const IntVec half = shift_right<1>(exponent);
  const IntVec rest = sub(exponent, half);
  const Vec scale_1 = from_bits(shift_left<23>(add(half, splat_int(127))));
  const Vec scale_2 = from_bits(shift_left<23>(add(rest, splat_int(127))));
  return mul(mul(e, scale_1), scale_2);
}

T9_VEC float exp(float x) { return first(exp(splat(x))); }

// tanh within 2 ulp. Below 0.55: x + x^3 p(x^2), with the error of p below 0.02 * 2^-24; else 1 - 2 / (e^2|x| + 1).
T9_VEC Vec tanh(Vec x) {
  const IntVec sign_bit = splat_int(INT32_MIN);
  const IntVec sign = bit_and(bits(x), sign_bit);
  const Vec a = from_bits(sub(bits(x), sign));
  const Vec z = mul(x, x);
  Vec p = fma(z, splat(-0x1.9bba7ep-8f), splat(0x1.59568ap-6f));
  p = fma(z, p, splat(-0x1.b92bbap-5f));
  p = fma(z, p, splat(0x1.110d3cp-3f));
  p = fma(z, p, splat(-0x1.55554cp-2f));
  const Vec small = fma(mul(z, x), p, x);
  const Vec one = splat(1.0f);
  const Vec large = sub(one, div(splat(2.0f), add(exp(add(a, a)), one)));
  return select_less(a, splat(0.55f), small, from_bits(bit_or(bits(large), sign)));
}

// x / (1 + e^-x)
T9_VEC Vec silu(Vec x) { return div(x, add(splat(1.0f), exp(sub(splat(0.0f), x)))); }

// x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), as x / (1 + e^-2u), which does not cancel for negative x.
T9_VEC Vec gelu_tanh(Vec x) {
  const Vec z = mul(x, x);
  const Vec inner = fma(z, splat(0.044715f), splat(1.0f));
  const Vec minus_2u = mul(mul(x, inner), splat(-1.595769122f));
  return div(x, add(splat(1.0f), exp(minus_2u)));
}

// 2 atanh(s) for |s| <= 1/3 as 2s + s z r(z) with z = s^2; the error of r moves the result by less than 0.08 * 2^-24.
T9_VEC Vec twice_atanh(Vec s) {
  const Vec z = mul(s, s);
  Vec r = fma(z, splat(0x1.1eca18p-2f), splat(0x1.1ec040p-2f));
  r = fma(z, r, splat(0x1.99d1ccp-2f));
  r = fma(z, r, splat(0x1.555502p-1f));
  return fma(mul(s, z), r, add(s, s));
}

// ln(x) for positive normal x: x = 2^k m with m in [sqrt(1/2), sqrt(2)), and twice_atanh of (m - 1) / (m + 1).
T9_VEC Vec log(Vec x) {
  const IntVec above = sub(bits(x), splat_int(0x3f3504f3));
  const IntVec k = shift_right<23>(above);
  const Vec m = from_bits(sub(bits(x), shift_left<23>(k)));
  const Vec shifter = splat(0x1.8p23f);
  const Vec exponent = sub(from_bits(add(k, bits(shifter))), shifter);
  const Vec mantissa = twice_atanh(div(sub(m, splat(1.0f)), add(m, splat(1.0f))));
  return fma(exponent, splat(0x1.62e430p-1f), mantissa);
}

// ln(1 + e^x) = max(x, 0) + ln(1 + t) with t = e^-|x| <= 1, and ln(1 + t) = 2 atanh(t / (2 + t)).
T9_VEC Vec softplus(Vec x) {
  const Vec t = exp(from_bits(bit_or(bits(x), splat_int(INT32_MIN))));
  return add(max(x, splat(0.0f)), twice_atanh(div(t, add(t, splat(2.0f)))));
}

T9_VEC Vec sigmoid(Vec x) { return div(splat(1.0f), add(splat(1.0f), exp(sub(splat(0.0f), x)))); }

// With g = min(gate, 7) and u = clamp(up, -7, 7): g sigmoid(1.702 g) (u + 1)
T9_VEC Vec clamped_swiglu(Vec gate, Vec up) {
  const Vec limit = splat(7.0f);
  const Vec g = min(limit, gate);
  const Vec u = min(limit, max(splat(-7.0f), up));
  const Vec e = exp(mul(g, splat(-1.702f)));
  return mul(div(g, add(splat(1.0f), e)), add(u, splat(1.0f)));
}

}  // namespace tempo9::kernels::T9_ISA
