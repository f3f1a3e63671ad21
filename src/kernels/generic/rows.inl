// Row kernels as text over the ISA's vec.h: included by isa/<name>/rows.cpp inside namespace tempo9::kernels::<name>.

static void add(const float* a, const float* b, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
}
