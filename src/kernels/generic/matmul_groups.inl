// Groups of weight rows and what their products share, over the types of matmul_types.inl; included after it.

// Which of a group's rows are wanted: [first, first + n) of the matrix, in the lanes [lane, lane + n).
struct GroupPlace {
  int64_t first;
  int64_t lane;
  int64_t n;
};

// kLanes consecutive weight rows.
template <class R>
struct RowGroup : GroupPlace {
  R rows;
};

// The group that begins with row `begin`. The last rows of a matrix are reached by starting further up; a matrix of
// fewer than kLanes rows is continued with copies of its first row in `copies`.
template <class R>
  requires(!R::kIsTiled)
RowGroup<R> row_group(const WeightView& weight, int64_t begin, int64_t end, std::byte* copies) {
  const int64_t n = end - begin < kLanes ? end - begin : kLanes;
  const auto* data = reinterpret_cast<const uint8_t*>(weight.data);
  if (weight.rows >= kLanes) {
    const int64_t top = begin + kLanes <= weight.rows ? begin : weight.rows - kLanes;
    return {{begin, begin - top, n}, {data + static_cast<size_t>(top) * weight.row_bytes, weight.row_bytes}};
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    const int64_t row = i < weight.rows ? i : 0;
    __builtin_memcpy(copies + static_cast<size_t>(i) * weight.row_bytes,
                     weight.data + static_cast<size_t>(row) * weight.row_bytes, weight.row_bytes);
  }
  return {{begin, begin, n}, {reinterpret_cast<const uint8_t*>(copies), weight.row_bytes}};
}

// The group that holds row `begin`.
template <class R>
  requires(R::kIsTiled)
RowGroup<R> row_group(const WeightView& weight, int64_t begin, int64_t end, std::byte* /*copies*/) {
  const int64_t top = begin / kLanes * kLanes;
  const int64_t n = (end < top + kLanes ? end : top + kLanes) - begin;
  const auto* data = reinterpret_cast<const uint8_t*>(weight.data);
  return {{begin, begin - top, n}, {data + static_cast<size_t>(top) * weight.row_bytes}};
}

T9_INLINE void store_lanes(const GroupPlace& group, Floats values, float* out_row) {
  if (group.n == kLanes) {
    store_floats(out_row + group.first, values);
    return;
  }
  float lanes[kLanes];
  store_floats(lanes, values);
  for (int64_t i = 0; i < group.n; ++i) out_row[group.first + i] = lanes[group.lane + i];
}

// Sums of a super-block's activations over Group values, as pairs of words.
template <int Group>
struct GroupSums {
  int16_t words[256 / Group];
  T9_INLINE explicit GroupSums(const int16_t* sums16) {
    if constexpr (Group == 16) {
      __builtin_memcpy(words, sums16, sizeof words);
    } else {
      add_word_pairs(sums16, words);
    }
  }
};

// Fetches weights ahead of their use, in place. kLanes rows are one run of memory, but what is read of it jumps from
// row to row, which hardware prefetchers do not follow: without this, reading from memory is 2 to 4 times slower. Into
// L2, because L1 is too small for long rows. Two groups ahead; one where that is more than 16 KiB, to keep the start of
// a call short (between one and two the figures there do not decide: docs/experiments.md).
template <class T>
struct Prefetcher {
  const uint8_t* next;
  const uint8_t* end;

  // Fetches the first groups of the rows of a call; the others follow as these are used.
  Prefetcher(const WeightView& weight, IndexRange rows) {
    const auto* data = reinterpret_cast<const uint8_t*>(weight.data);
    next = data + static_cast<size_t>(rows.begin) * weight.row_bytes;
    end = data + weight.size_bytes();  // beyond the call's rows: see TilePrefetcher
    const size_t group_bytes = kLanes * weight.row_bytes;
    const uint8_t* first = next + (group_bytes > (16 << 10) ? 1 : 2) * group_bytes;
    if (first > end) first = end;
    for (; next < first; next += 64) __builtin_prefetch(next, 0, 2);
  }
  // Long blocks spread their lines over the columns (16 at a time); all at once would fill the miss buffers.
  T9_INLINE void at_block() {
    if constexpr (T::kBlock == 32) fetch<kLanes * T::kBlockBytes>();
  }
  T9_INLINE void at_block(int64_t /*stream*/, int64_t /*block*/) { at_block(); }
  T9_INLINE void at_columns(int n_columns) {
    if constexpr (T::kBlock == 256) {
      for (int i = 0; i < n_columns; i += 16) fetch<kLanes * T::kBlockBytes / 16>();
    }
  }

  T9_INLINE void advance() const {}

 private:
  template <size_t Bytes>
  T9_INLINE void fetch() {
    if (next >= end) return;
    for (size_t i = 0; i < Bytes; i += 64) __builtin_prefetch(next + i, 0, 2);
    next += Bytes;
  }
};

// Calls f(integral constant m) for m = n, which is in 1..Max.
template <int Max, class F>
T9_INLINE void with_count(int64_t n, F&& f) {
  unroll<Max>([&](auto i) __attribute__((always_inline)) {
    if (n == i + 1) f(std::integral_constant<int, i + 1>{});
  });
}
