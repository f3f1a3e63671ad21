// Blocks of floats as int8 codes over the ISA's matmul_vec.h (numeric contract C7; isa/scalar/quantize.h says the same
// in plain C++).

// The largest magnitude, found among bit patterns, which puts NaN above infinity.
template <int Block>
T9_INLINE float greatest_magnitude(const float* x) {
  Ints greatest = zero_ints();
  for (int i = 0; i < Block; i += kLanes) {
    greatest = max_uint32(greatest, and_bits(floats_to_bits(load_floats(x + i)), set_int32(0x7fffffff)));
  }
  return std::bit_cast<float>(greatest_uint32(greatest));
}

// Codes x * inverse to the nearest, and their sums over Group values each.
template <int Block, int Group>
T9_INLINE void quantize_codes(const float* x, float inverse, int8_t* q, int16_t* sums) {
  for (int begin = 0; begin < Block; begin += Group) {
    Ints sum = zero_ints();
    for (int i = begin; i < begin + Group; i += kLanes) {
      const Floats scaled = mul(load_floats(x + i), set_floats(inverse));
      const Ints codes = to_nearest_ints(min(max(scaled, set_floats(-127.0f)), set_floats(127.0f)));
      store_as_int8(q + i, codes);
      sum = add_int32(sum, codes);
    }
    sums[begin / Group] = static_cast<int16_t>(sum_int32(sum));
  }
}

// Block values at x to codes, their scale, and their sums over Group values each.
template <int Block, int Group>
T9_INLINE void quantize_block(const float* x, float* d_out, int8_t* q, int16_t* sums) {
  float d = greatest_magnitude<Block>(x) / 127.0f;
  float inverse = 1.0f / d;
  if (d < FLT_MIN) d = inverse = 0.0f;
  *d_out = d;
  quantize_codes<Block, Group>(x, inverse, q, sums);
}
