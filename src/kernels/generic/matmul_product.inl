// Products of quantised weights over the types of matmul_types.inl and the groups of matmul_groups.inl; included after
// both. The numbers are those of isa/scalar/matmul.cpp, to the last bit.
//
// Weight rows are taken kLanes at a time, one per lane, so that the float steps of the contract run down the blocks in
// order for all of them at once and integers never need to be summed across lanes. Two ways of equal bits:
//   stream  few activation rows: codes are multiplied as they are unpacked
//   panel   many: 2 * kLanes rows are unpacked once and multiplied with tiles of n_tile_rows activation rows

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

// Fetches tiles ahead of their use, for S groups that are read side by side: together kTileAhead bytes before the
// places being multiplied, and from the end of a group on in the one that its stream reads next. It goes on beyond the
// call's rows, since a worker mostly does so too (see chunk_in_turn of the CPU backend); what it finds fetched costs it
// nothing.
template <class T, int S>
class TilePrefetcher {
 public:
  // Fetches the first tiles of the rows of a call; the rest follows as these are used.
  TilePrefetcher(const WeightView& weight, IndexRange rows)
      : group_bytes_(kLanes * weight.row_bytes),
        row_(reinterpret_cast<const uint8_t*>(weight.data) +
             static_cast<size_t>(rows.begin / kLanes * kLanes) * weight.row_bytes),
        end_(reinterpret_cast<const uint8_t*>(weight.data) + weight.size_bytes()) {
    for (int s = 0; s < S; ++s) {
      for (size_t i = 0; i < kAhead; i += 64) {
        const uint8_t* line = target(s, i);
        if (line < end_) __builtin_prefetch(line, 0, 3);
      }
    }
  }
  T9_INLINE void at_block(int stream, int64_t block) {
    next_ = target(stream, static_cast<size_t>(block) * kTileBytes + kAhead);
    if constexpr (T::kBlock == 32) fetch<kTileBytes>();
  }
  T9_INLINE void at_columns(int n_columns) {
    if constexpr (T::kBlock == 256) {
      for (int i = 0; i < n_columns; i += 16) fetch<kTileBytes / 16>();
    }
  }
  // The streams go on with their next groups.
  T9_INLINE void advance() { row_ += S * group_bytes_; }

 private:
  static constexpr size_t kTileBytes = kLanes * T::kBlockBytes;
  static constexpr size_t kAhead = (kTileAhead / S + kTileBytes - 1) / kTileBytes * kTileBytes;

  // Where byte `offset` of a stream lies, counted from the beginning of its group.
  T9_INLINE const uint8_t* target(int stream, size_t offset) const {
    if (offset >= group_bytes_) offset += (S - 1) * group_bytes_;
    return row_ + static_cast<size_t>(stream) * group_bytes_ + offset;
  }
  template <size_t Bytes>
  T9_INLINE void fetch() {
    if (next_ >= end_) return;
    for (size_t i = 0; i < Bytes; i += 64) __builtin_prefetch(next_ + i, 0, 3);
    next_ += Bytes;
  }

  size_t group_bytes_;
  const uint8_t* row_;  // the first stream's group
  const uint8_t* end_;
  const uint8_t* next_ = nullptr;
};

// ---- Stream ---------------------------------------------------------------------------------------------------------

// S groups of kLanes weight rows, read side by side, times M activation rows.
template <class T, int M, int S, class R, class Prefetch>
void stream_groups(const RowGroup<R> (&groups)[S], int64_t n_blocks, const QuantizedRows& x, MatView<float> out,
                   Prefetch& prefetch) {
  Prefetch prefetcher = prefetch;  // in registers
  ActBlock<M> act(x, 0, T::kBlock);
  Floats acc[S][M][1];
  for (int s = 0; s < S; ++s) {
    for (int m = 0; m < M; ++m) acc[s][m][0] = zero_floats();
  }
  R rows[S];
  for (int s = 0; s < S; ++s) rows[s] = groups[s].rows;
  for (int64_t b = 0; b < n_blocks; ++b) {
    unroll<S>([&](auto s) __attribute__((always_inline)) {
      prefetcher.at_block(s, b);
      typename T::Header header;
      T::header(rows[s], header);
      Ints total[M][1];
      start_dots<T>(act, total);
      T::codes(
          rows[s], [&]<int N>(int column, const Ints(&q)[N]) __attribute__((always_inline)) {
            prefetcher.at_columns(4 * N);
            const int8_t* y[M];
            for (int m = 0; m < M; ++m) y[m] = act.y[m] + column;
            const Ints* const codes[1] = {q};
            if constexpr (T::kBlock == 32) {
              multiply<T::kMaxCode, N, M, 1>(codes, y, total);
            } else {
              const Ints scale[1] = {header.scale[column / T::kGroup]};
              multiply_scaled<T::kMaxCode, N, M, 1>(codes, y, scale, total);
            }
          });
      const typename T::Header* const headers[1] = {&header};
      finish_block<T>(act, headers, total, acc[s]);
      rows[s] = rows[s].at(T::kBlockBytes);
    });
    act.advance(T::kBlock);
  }
  for (int s = 0; s < S; ++s) {
    for (int m = 0; m < M; ++m) store_lanes(groups[s], acc[s][m][0], out.data + m * out.stride);
  }
  prefetch = prefetcher;
  prefetch.advance();
}

template <class T, int M>
void stream_rows(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
                 std::byte* copies) {
  Prefetcher<T> prefetch(weight, weight_rows);
  for (int64_t r = weight_rows.begin; r < weight_rows.end;) {
    const RowGroup<InPlace> groups[] = {row_group<InPlace>(weight, r, weight_rows.end, copies)};
    stream_groups<T, M, 1>(groups, weight.cols / T::kBlock, x, out, prefetch);
    r += groups[0].n;
  }
}

// S groups at a time while there are as many. Returns the first row that is left.
template <class T, int M, int S>
int64_t stream_tiles_side_by_side(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x,
                                  MatView<float> out) {
  TilePrefetcher<T, S> prefetch(weight, weight_rows);
  int64_t r = weight_rows.begin;
  while (r < weight_rows.end && (S == 1 || r + S * kLanes <= weight_rows.end)) {
    RowGroup<Tile> groups[S];
    for (int s = 0; s < S; ++s) groups[s] = row_group<Tile>(weight, r + s * kLanes, weight_rows.end, nullptr);
    stream_groups<T, M, S>(groups, weight.cols / T::kBlock, x, out, prefetch);
    for (int s = 0; s < S; ++s) r += groups[s].n;
  }
  return r;
}

// In two streams where one does not get all that the memory can give, and the rows are whole groups.
template <class T, int M>
void stream_tiles(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out) {
  if constexpr (M <= kMaxTwoStreamRows) {
    if (reads_in_two_streams() && weight_rows.begin % kLanes == 0) {
      weight_rows.begin = stream_tiles_side_by_side<T, M, 2>(weight, weight_rows, x, out);
    }
  }
  if (weight_rows.begin < weight_rows.end) stream_tiles_side_by_side<T, M, 1>(weight, weight_rows, x, out);
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

template <class T, class R>
void unpack_group(R rows, int64_t n_blocks, typename T::Header* headers, Ints* codes, Prefetcher<T>& prefetch) {
  Prefetcher<T> prefetcher = prefetch;
  for (int64_t b = 0; b < n_blocks; ++b) {
    prefetcher.at_block();
    T::header(rows, headers[b]);
    T::codes(
        rows, [&]<int N>(int column, const Ints(&q)[N]) __attribute__((always_inline)) {
          prefetcher.at_columns(4 * N);
          for (int k = 0; k < N; ++k) codes[column / 4 + k] = q[k];
        });
    codes += T::kBlock / 4;
    rows = rows.at(T::kBlockBytes);
  }
  prefetch = prefetcher;
}

// A panel times M activation rows.
template <class T, int M>
void multiply_panel(const Panel<T>& panel, const GroupPlace (&groups)[2], int64_t n_blocks, const QuantizedRows& x,
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

template <class T>
size_t matmul_scratch_bytes(const WeightView& weight) {
  const size_t copies = weight.rows < kLanes ? (kLanes * weight.row_bytes + 63) / 64 * 64 : 0;
  return copies + Panel<T>::bytes(weight.cols);
}

template <class T, class R>
void multiply_panels(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
                     std::byte* scratch) {
  const int64_t n_blocks = weight.cols / T::kBlock;
  std::byte* copies = scratch + Panel<T>::bytes(weight.cols);
  Prefetcher<T> prefetcher(weight, weight_rows);
  const Panel<T> panel(scratch, weight.cols);
  for (int64_t r = weight_rows.begin; r < weight_rows.end;) {
    RowGroup<R> groups[2];
    groups[0] = groups[1] = row_group<R>(weight, r, weight_rows.end, copies);
    groups[1].n = 0;  // unless there are more rows than fill one group
    r += groups[0].n;
    if (r < weight_rows.end) groups[1] = row_group<R>(weight, r, weight_rows.end, copies);
    r += groups[1].n;
    for (int v = 0; v < 2; ++v) unpack_group<T>(groups[v].rows, n_blocks, panel.headers[v], panel.codes[v], prefetcher);
    const GroupPlace places[2] = {groups[0], groups[1]};
    constexpr int kRows = n_tile_rows(T::kBlock);
    for (int64_t i = 0; i < x.rows; i += kRows) {
      const int64_t n = x.rows - i < kRows ? x.rows - i : kRows;
      with_count<kRows>(n, [&](auto m) { multiply_panel<T, m>(panel, places, n_blocks, x, i, out); });
    }
  }
}

template <class T>
void matmul(const WeightView& weight, IndexRange weight_rows, const QuantizedRows& x, MatView<float> out,
            std::byte* scratch) {
  const bool is_tiled = weight.layout == tensor::Layout::kTiled;
  std::byte* copies = scratch + Panel<T>::bytes(weight.cols);
  if (is_tiled && x.rows <= kMaxTileStreamRows) {
    with_count<kMaxTileStreamRows>(x.rows, [&](auto m) { stream_tiles<T, m>(weight, weight_rows, x, out); });
  } else if (is_tiled) {
    multiply_panels<T, Tile>(weight, weight_rows, x, out, scratch);
  } else if (x.rows <= kMaxStreamRows) {
    with_count<kMaxStreamRows>(x.rows, [&](auto m) { stream_rows<T, m>(weight, weight_rows, x, out, copies); });
  } else {
    multiply_panels<T, InPlace>(weight, weight_rows, x, out, scratch);
  }
}

// ---- Tiles ----------------------------------------------------------------------------------------------------------

// `bytes` bytes (0, 1 or 2) of each row, side by side.
T9_INLINE void copy_lanes(InPlace rows, int64_t bytes, uint8_t* out) {
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    const uint8_t* from = rows.p + static_cast<size_t>(lane) * rows.stride;
    for (int64_t i = 0; i < bytes; ++i) *out++ = from[i];
  }
}

// The same block of kLanes rows as a tile (kernels/tiles.h).
void write_tile(InPlace rows, int64_t block_bytes, int64_t head_bytes, uint8_t* out) {
  copy_lanes(rows, head_bytes, out);
  int64_t at = head_bytes;
  const auto to = [&] { return out + kLanes * at; };
  const auto from = [&] { return rows.at(static_cast<size_t>(at)); };
  for (; at + 16 <= block_bytes; at += 16) {
    Ints columns[4];
    gather_16_bytes(from(), columns);
    for (size_t k = 0; k < 4; ++k) store_ints(to() + k * sizeof(Ints), columns[k]);
  }
  for (; at + 4 <= block_bytes; at += 4) store_ints(to(), gather_int32(from()));
  copy_lanes(from(), block_bytes - at, to());
}

void write_tiles(const WeightView& weight, IndexRange rows, std::byte* out) {
  const tensor::DTypeInfo& info = tensor::dtype_info(weight.dtype);
  const int64_t n_blocks = weight.cols / info.block_elements;
  const int64_t head_bytes = tile_head_bytes(info.block_elements, info.block_bytes);
  auto* to = reinterpret_cast<uint8_t*>(out);
  for (int64_t r = rows.begin; r < rows.end; r += kLanes) {
    InPlace from{reinterpret_cast<const uint8_t*>(weight.data) + static_cast<size_t>(r) * weight.row_bytes,
                 weight.row_bytes};
    for (int64_t b = 0; b < n_blocks; ++b, to += kLanes * info.block_bytes) {
      write_tile(from, info.block_bytes, head_bytes, to);
      from = from.at(static_cast<size_t>(info.block_bytes));
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
