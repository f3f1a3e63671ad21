// Products of quantised weights over the types of matmul_types.inl; included after it. The numbers are those of
// isa/scalar/matmul.cpp, to the last bit.
//
// Weight rows are taken kLanes at a time, one per lane, so that the float steps of the contract run down the blocks in
// order for all of them at once and integers never need to be summed across lanes. Two ways of equal bits:
//   stream  few activation rows: codes are multiplied as they are unpacked
//   panel   many: 2 * kLanes rows are unpacked once and multiplied with tiles of kTileRows activation rows

// kLanes consecutive weight rows, of which rows [first, first + n) are wanted: lanes [lane, lane + n).
struct RowGroup {
  Rows rows;
  int64_t first;
  int64_t lane;
  int64_t n;
};

// The group that begins at row `begin`. The last rows of a matrix are reached by starting further up; a matrix of fewer
// than kLanes rows is continued with copies of its first row in `copies`.
RowGroup row_group(const WeightView& weight, int64_t begin, int64_t end, std::byte* copies) {
  const int64_t n = end - begin < kLanes ? end - begin : kLanes;
  const auto* data = reinterpret_cast<const uint8_t*>(weight.data);
  if (weight.rows >= kLanes) {
    const int64_t top = begin + kLanes <= weight.rows ? begin : weight.rows - kLanes;
    return {{data + static_cast<size_t>(top) * weight.row_bytes, weight.row_bytes}, begin, begin - top, n};
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    const int64_t row = i < weight.rows ? i : 0;
    __builtin_memcpy(copies + static_cast<size_t>(i) * weight.row_bytes,
                     weight.data + static_cast<size_t>(row) * weight.row_bytes, weight.row_bytes);
  }
  return {{reinterpret_cast<const uint8_t*>(copies), weight.row_bytes}, begin, begin, n};
}

T9_INLINE void store_lanes(const RowGroup& group, Floats values, float* out_row) {
  if (group.n == kLanes) {
    store_floats(out_row + group.first, values);
    return;
  }
  float lanes[kLanes];
  store_floats(lanes, values);
  for (int64_t i = 0; i < group.n; ++i) out_row[group.first + i] = lanes[group.lane + i];
}

// ---- One block: exact integers, then the float steps ----------------------------------------------------------------

// The activations of M rows at one block.
template <int M>
struct ActBlock {
  const int8_t* y[M];
  const float* d[M];
  const int16_t* sums[M];

  T9_INLINE ActBlock(const QuantizedRows& x, int64_t first_row, int64_t block) {
    const int64_t n_blocks = x.cols / block;
    const int64_t n_sums = block == 256 ? x.cols / 16 : n_blocks;
    for (int m = 0; m < M; ++m) {
      const int64_t row = x.source(first_row + m);
      y[m] = x.q + row * x.cols;
      d[m] = x.d + row * n_blocks;
      sums[m] = x.sums + row * n_sums;
    }
  }
  T9_INLINE void advance(int64_t block) {
    for (int m = 0; m < M; ++m) {
      y[m] += block;
      ++d[m];
      sums[m] += block == 256 ? 16 : 1;
    }
  }
};

// Calls f(m, v) for all, with constants.
template <int M, int V, class F>
T9_INLINE void for_tile(F&& f) {
  unroll<M>([&](auto m)
                __attribute__((always_inline)) { unroll<V>([&](auto v) __attribute__((always_inline)) { f(m, v); }); });
}

// What the integer sums of a block start from.
template <class T, int M, int V>
T9_INLINE void start_dots(const ActBlock<M>& act, Ints (&total)[M][V]) {
  for_tile<M, V>([&](auto m, auto v) __attribute__((always_inline)) {
    if constexpr (T::kBlock == 32 && T::kBias != 0) {
      total[m][v] = set_int32(-T::kBias * act.sums[m][0]);
    } else {
      total[m][v] = zero_ints();
    }
  });
}

// The float steps of a 32-value block.
template <class T, int M, int V>
T9_INLINE void finish_block_32(const ActBlock<M>& act, const typename T::Header* const (&header)[V],
                               const Ints (&total)[M][V], Floats (&acc)[M][V]) {
  for_tile<M, V>([&](auto m, auto v) __attribute__((always_inline)) {
    const float dy = act.d[m][0];
    acc[m][v] = mul_add(to_floats(total[m][v]), mul(header[v]->d, set_floats(dy)), acc[m][v]);
    if constexpr (T::kHasM) {
      const float s = dy * static_cast<float>(act.sums[m][0]);
      acc[m][v] = mul_add(header[v]->m, set_floats(s), acc[m][v]);
    }
  });
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

// The correction for bias and the float steps of a 256-value block.
template <class T, int M, int V>
T9_INLINE void finish_block_256(const ActBlock<M>& act, const typename T::Header* const (&header)[V],
                                Ints (&total)[M][V], Floats (&acc)[M][V]) {
  unroll<M>([&](auto m) __attribute__((always_inline)) {
    const float dy = act.d[m][0];
    Ints side[V];
    if constexpr (T::kSide != Side::kNone) {
      const GroupSums<T::kGroup> sums(act.sums[m]);
      unroll<V>([&](auto v) __attribute__((always_inline)) {
        side[v] = zero_ints();
        unroll<128 / T::kGroup>([&](auto i) __attribute__((always_inline)) {
          side[v] = multiply_words(side[v], header[v]->side[i], sums.words + 2 * i);
        });
      });
    }
    unroll<V>([&](auto v) __attribute__((always_inline)) {
      if constexpr (T::kSide == Side::kScales) {
        total[m][v] = sub_int32(total[m][v], mul_int32(side[v], set_int32(T::kBias)));
      }
      acc[m][v] = mul_add(to_floats(total[m][v]), mul(header[v]->d, set_floats(dy)), acc[m][v]);
      if constexpr (T::kSide == Side::kMins) {
        acc[m][v] = neg_mul_add(to_floats(side[v]), mul(header[v]->dmin, set_floats(dy)), acc[m][v]);
      }
    });
  });
}

template <class T, int M, int V>
T9_INLINE void finish_block(const ActBlock<M>& act, const typename T::Header* const (&header)[V], Ints (&total)[M][V],
                            Floats (&acc)[M][V]) {
  if constexpr (T::kBlock == 32) {
    finish_block_32<T>(act, header, total, acc);
  } else {
    finish_block_256<T>(act, header, total, acc);
  }
}

// Fetches weights ahead of their use. In place, kLanes rows are one run of memory, but what is read of it jumps from
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
    end = data + static_cast<size_t>(rows.end) * weight.row_bytes;
    const size_t group_bytes = kLanes * weight.row_bytes;
    const uint8_t* first = next + (group_bytes > (16 << 10) ? 1 : 2) * group_bytes;
    if (first > end) first = end;
    for (; next < first; next += 64) __builtin_prefetch(next, 0, 2);
  }
  // Long blocks spread their lines over the columns (16 at a time); all at once would fill the miss buffers.
  T9_INLINE void at_block() {
    if constexpr (T::kBlock == 32) fetch<kLanes * T::kBlockBytes>();
  }
  T9_INLINE void at_columns() {
    if constexpr (T::kBlock == 256) fetch<kLanes * T::kBlockBytes / 16>();
  }

 private:
  template <size_t Bytes>
  T9_INLINE void fetch() {
    if (next >= end) return;
    for (size_t i = 0; i < Bytes; i += 64) __builtin_prefetch(next + i, 0, 2);
    next += Bytes;
  }
};

// ---- Stream ---------------------------------------------------------------------------------------------------------

// kLanes weight rows times M activation rows.
template <class T, int M>
void stream_group(const RowGroup& group, int64_t n_blocks, const QuantizedRows& x, MatView<float> out,
                  Prefetcher<T>& prefetch) {
  Prefetcher<T> prefetcher = prefetch;  // in registers while the group lasts
  ActBlock<M> act(x, 0, T::kBlock);
  Floats acc[M][1];
  for (int m = 0; m < M; ++m) acc[m][0] = zero_floats();
  Rows rows = group.rows;
  for (int64_t b = 0; b < n_blocks; ++b) {
    prefetcher.at_block();
    typename T::Header header;
    T::header(rows, header);
    Ints total[M][1];
    start_dots<T>(act, total);
    T::codes(
        rows, [&](int column, const Ints* q) __attribute__((always_inline)) {
          prefetcher.at_columns();
          const int8_t* y[M];
          for (int m = 0; m < M; ++m) y[m] = act.y[m] + column;
          const Ints* const codes[1] = {q};
          if constexpr (T::kBlock == 32) {
            multiply<T::kMaxCode, 4, M, 1>(codes, y, total);
          } else {
            const Ints scale[1] = {header.scale[column / T::kGroup]};
            multiply_scaled<T::kMaxCode, 4, M, 1>(codes, y, scale, total);
          }
        });
    const typename T::Header* const headers[1] = {&header};
    finish_block<T>(act, headers, total, acc);
    act.advance(T::kBlock);
    rows.p += T::kBlockBytes;
  }
  for (int m = 0; m < M; ++m) store_lanes(group, acc[m][0], out.data + m * out.stride);
  prefetch = prefetcher;
}

// ---- Panel ----------------------------------------------------------------------------------------------------------

// Two groups of kLanes rows, unpacked: per group all headers, then the codes of columns 4k..4k+3 in vector k.
template <class T>
struct Panel {
  typename T::Header* headers[2];
  Ints* codes[2];

  static size_t bytes(int64_t cols) {
    return 2 * static_cast<size_t>(cols / T::kBlock * static_cast<int64_t>(sizeof(typename T::Header)) +
                                   cols / 4 * static_cast<int64_t>(sizeof(Ints)));
  }
  Panel(std::byte* memory, int64_t cols) {
    for (int v = 0; v < 2; ++v) {
      std::byte* begin = memory + static_cast<size_t>(v) * bytes(cols) / 2;
      headers[v] = reinterpret_cast<typename T::Header*>(begin);
      codes[v] = reinterpret_cast<Ints*>(headers[v] + cols / T::kBlock);
    }
  }
};

template <class T>
void unpack_group(Rows rows, int64_t n_blocks, typename T::Header* headers, Ints* codes, Prefetcher<T>& prefetch) {
  Prefetcher<T> prefetcher = prefetch;
  for (int64_t b = 0; b < n_blocks; ++b) {
    prefetcher.at_block();
    T::header(rows, headers[b]);
    T::codes(
        rows, [&](int column, const Ints* q) __attribute__((always_inline)) {
          prefetcher.at_columns();
          for (int k = 0; k < 4; ++k) codes[column / 4 + k] = q[k];
        });
    codes += T::kBlock / 4;
    rows.p += T::kBlockBytes;
  }
  prefetch = prefetcher;
}

// A panel times M activation rows.
template <class T, int M>
void multiply_panel(const Panel<T>& panel, const RowGroup (&groups)[2], int64_t n_blocks, const QuantizedRows& x,
                    int64_t first_row, MatView<float> out) {
  constexpr int kGroup = [] {
    if constexpr (T::kBlock == 32)
      return 32;
    else
      return T::kGroup;
  }();
  ActBlock<M> act(x, first_row, T::kBlock);
  Floats acc[M][2];
  for_tile<M, 2>([&](auto m, auto v) __attribute__((always_inline)) { acc[m][v] = zero_floats(); });
  const Ints* codes[2] = {panel.codes[0], panel.codes[1]};
  for (int64_t b = 0; b < n_blocks; ++b) {
    const typename T::Header* const headers[2] = {panel.headers[0] + b, panel.headers[1] + b};
    Ints total[M][2];
    start_dots<T>(act, total);
    for (int column = 0; column < T::kBlock; column += kGroup) {
      const int8_t* y[M];
      for (int m = 0; m < M; ++m) y[m] = act.y[m] + column;
      const Ints* const quads[2] = {codes[0] + column / 4, codes[1] + column / 4};
      if constexpr (T::kBlock == 32) {
        multiply<T::kMaxCode, kGroup / 4, M, 2>(quads, y, total);
      } else {
        const Ints scale[2] = {headers[0]->scale[column / kGroup], headers[1]->scale[column / kGroup]};
        multiply_scaled<T::kMaxCode, kGroup / 4, M, 2>(quads, y, scale, total);
      }
    }
    finish_block<T>(act, headers, total, acc);
    act.advance(T::kBlock);
    codes[0] += T::kBlock / 4;
    codes[1] += T::kBlock / 4;
  }
  for_tile<M, 2>([&](auto m, auto v) __attribute__((always_inline)) {
    if (groups[v].n > 0) store_lanes(groups[v], acc[m][v], out.data + (first_row + m) * out.stride);
  });
}

// ---- All rows -------------------------------------------------------------------------------------------------------

// Calls f(integral constant m) for m = n, which is in 1..Max.
template <int Max, class F>
T9_INLINE void with_count(int64_t n, F&& f) {
  unroll<Max>([&](auto i) __attribute__((always_inline)) {
    if (n == i + 1) f(std::integral_constant<int, i + 1>{});
  });
}

template <class T>
size_t matmul_scratch_bytes(const WeightView& weight) {
  const size_t copies = weight.rows < kLanes ? (kLanes * weight.row_bytes + 63) / 64 * 64 : 0;
  return copies + Panel<T>::bytes(weight.cols);
}

template <class T>
void matmul(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
            std::byte* scratch) {
  const int64_t n_blocks = weight.cols / T::kBlock;
  std::byte* copies = scratch + Panel<T>::bytes(weight.cols);
  Prefetcher<T> prefetcher(weight, weight_rows);
  if (x.rows <= kMaxStreamRows) {
    for (int64_t r = weight_rows.begin; r < weight_rows.end; r += kLanes) {
      const RowGroup group = row_group(weight, r, weight_rows.end, copies);
      with_count<kMaxStreamRows>(x.rows, [&](auto m) { stream_group<T, m>(group, n_blocks, x, out, prefetcher); });
    }
    return;
  }
  const Panel<T> panel(scratch, weight.cols);
  for (int64_t r = weight_rows.begin; r < weight_rows.end; r += 2 * kLanes) {
    RowGroup groups[2];
    groups[0] = groups[1] = row_group(weight, r, weight_rows.end, copies);
    groups[1].n = 0;  // unless there are more rows than fill one group
    if (r + kLanes < weight_rows.end) groups[1] = row_group(weight, r + kLanes, weight_rows.end, copies);
    for (int v = 0; v < 2; ++v) unpack_group<T>(groups[v].rows, n_blocks, panel.headers[v], panel.codes[v], prefetcher);
    for (int64_t i = 0; i < x.rows; i += kTileRows) {
      const int64_t n = x.rows - i < kTileRows ? x.rows - i : kTileRows;
      with_count<kTileRows>(n, [&](auto m) { multiply_panel<T, m>(panel, groups, n_blocks, x, i, out); });
    }
  }
}

MatMulQuant find_quant(tensor::DType dtype) {
  return with_type(
      dtype, [](auto type) -> MatMulQuant { return matmul<typename decltype(type)::type>; }, MatMulQuant{});
}

bool is_native(tensor::DType dtype) {
  return with_type(
      dtype, [](auto) { return true; }, act_format(dtype) == ActFormat::kF32);
}

size_t scratch_bytes(const WeightView& weight) {
  return with_type(
      weight.dtype, [&](auto type) { return matmul_scratch_bytes<typename decltype(type)::type>(weight); }, size_t{0});
}
