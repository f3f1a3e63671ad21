// How the blocks of each weight type become vectors with one weight row per lane, read where they lie in the file or
// from tiles. Text over the ISA's matmul_vec.h; included by isa/<name>/matmul.cpp inside an unnamed namespace. Layouts:
// spec gguf 4.2 and 4.3, kernels/tiles.h.
//
// A type gives, for the block at the same place in kLanes rows:
//   kBlockBytes, kMaxCode; kBias: codes are stored with this added, so that they are unsigned
//   header(rows, h)     scales and what corrects for bias and mins
//   codes(rows, emit)   calls emit(column, const Ints (&q)[N]) for all runs of 4 N columns; q[k] holds columns 4k..4k+3
//   of the run, which has one scale
// `rows` is one of the two:

// The same block in each row, as in the file: the first row's address, and the distance to the next.
struct InPlace {
  static constexpr bool kIsTiled = false;
  const uint8_t* p;
  size_t stride;
  T9_INLINE InPlace at(size_t bytes) const { return {p + bytes, stride}; }
};
T9_INLINE Ints gather_uint8(InPlace rows) { return gather_uint8(rows.p, rows.stride); }
T9_INLINE Ints gather_int32(InPlace rows) { return gather_int32(rows.p, rows.stride); }
T9_INLINE Floats gather_half(InPlace rows) { return gather_half(rows.p, rows.stride); }
T9_INLINE void gather_16_bytes(InPlace rows, Ints (&out)[4]) { gather_16_bytes(rows.p, rows.stride, out); }

// A tile: what lies `bytes` into each block lies kLanes times as far into the tile, row beside row.
struct Tile {
  static constexpr bool kIsTiled = true;
  const uint8_t* p;
  T9_INLINE Tile at(size_t bytes) const { return {p + kLanes * bytes}; }
};
T9_INLINE Ints gather_uint8(Tile rows) { return load_uint8(rows.p); }
T9_INLINE Ints gather_int32(Tile rows) { return load_ints(rows.p); }
T9_INLINE Floats gather_half(Tile rows) { return load_halves(rows.p); }
T9_INLINE void gather_16_bytes(Tile rows, Ints (&out)[4]) {
  for (size_t k = 0; k < 4; ++k) out[k] = load_ints(rows.p + k * sizeof(Ints));
}

// Calls f(integral constant) for 0..N-1.
template <int N, class F>
T9_INLINE void unroll(F&& f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>{}), ...);
  }
  (std::make_integer_sequence<int, N>{});
}

template <class R>
T9_INLINE void gather_32_bytes(R rows, Ints (&out)[8]) {
  Ints half[4];
  for (int i = 0; i < 2; ++i) {
    gather_16_bytes(rows.at(static_cast<size_t>(16 * i)), half);
    for (int k = 0; k < 4; ++k) out[4 * i + k] = half[k];
  }
}

// Bit From of each byte as bit To, all others zero.
template <int From, int To>
T9_INLINE Ints move_bit(Ints a) {
  if constexpr (From < To) {
    a = shift_left<To - From>(a);
  } else {
    a = shift_right<From - To>(a);
  }
  return and_bits(a, set_int8(1 << To));
}

T9_INLINE Ints low_nibbles(Ints a) { return and_bits(a, set_int8(0x0f)); }
T9_INLINE Ints high_nibbles(Ints a) { return and_bits(shift_right<4>(a), set_int8(0x0f)); }

// The values of types whose codes are looked up, with the bias that makes them unsigned where the ISA needs that.
struct LookupTables {
  alignas(16) int8_t nl[16];
  alignas(16) int8_t f4[16];
};
constexpr LookupTables make_tables() {
  constexpr int kNl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  constexpr int kF4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  LookupTables tables{};
  for (int i = 0; i < 16; ++i) {
    tables.nl[i] = static_cast<int8_t>(kNl[i] + kSignedBias);
    tables.f4[i] = static_cast<int8_t>(kF4[i] + 12);
  }
  return tables;
}
constexpr LookupTables kTables = make_tables();

// ---- 32-value types -------------------------------------------------------------------------------------------------

// One scale per block and row; a constant for types with kHasM.
struct Header32 {
  Floats d;
};
struct Header32M {
  Floats d;
  Floats m;
};

// d in the low and m in the high half of each row's first 4 bytes.
template <class R>
T9_INLINE void header_with_m(R rows, Header32M& h) {
  const Ints both = gather_int32(rows);
  h.d = low_half_to_floats(both);
  h.m = low_half_to_floats(shift_right<16>(both));
}

// 16 bytes whose low nibbles are columns 0..15 and whose high nibbles are columns 16..31.
template <class R, class Map, class Emit>
T9_INLINE void emit_nibbles(R rows, Map&& map, Emit&& emit) {
  Ints bytes[4], q[8];
  gather_16_bytes(rows, bytes);
  unroll<4>([&](auto k) __attribute__((always_inline)) {
    q[k] = map(low_nibbles(bytes[k]), k);
    q[k + 4] = map(high_nibbles(bytes[k]), std::integral_constant<int, k + 4>{});
  });
  emit(0, q);
}
constexpr auto kPlainNibbles = [](Ints nibbles, auto) __attribute__((always_inline)) { return nibbles; };

// A map for emit_nibbles that adds bit i of qh, as 16, to column i.
T9_INLINE auto fifth_bits(Ints qh) {
  return [qh](Ints nibbles, auto k) __attribute__((always_inline)) {
    const Ints bits = set_int32(k % 2 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010u));
    return or_bits(nibbles, flag_where(pick_bytes<k / 2, k / 2, k / 2, k / 2>(qh), bits, 16));
  };
}

struct Type32 {
  static constexpr int kBlock = 32;
  static constexpr bool kHasM = false;
  static constexpr int kBias = 0;
  using Header = Header32;
};
struct Type32M : Type32 {
  static constexpr bool kHasM = true;
  using Header = Header32M;
};

struct TypeQ4_0 : Type32 {
  static constexpr int kBlockBytes = 18;
  static constexpr int kMaxCode = 15;
  static constexpr int kBias = 8;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { h.d = gather_half(rows); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    emit_nibbles(rows.at(2), kPlainNibbles, emit);
  }
};

struct TypeQ4_1 : Type32M {
  static constexpr int kBlockBytes = 20;
  static constexpr int kMaxCode = 15;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { header_with_m(rows, h); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    emit_nibbles(rows.at(4), kPlainNibbles, emit);
  }
};

struct TypeQ5_0 : Type32 {
  static constexpr int kBlockBytes = 22;
  static constexpr int kMaxCode = 31;
  static constexpr int kBias = 16;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { h.d = gather_half(rows); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    emit_nibbles(rows.at(6), fifth_bits(gather_int32(rows.at(2))), emit);
  }
};

struct TypeQ5_1 : Type32M {
  static constexpr int kBlockBytes = 24;
  static constexpr int kMaxCode = 31;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { header_with_m(rows, h); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    emit_nibbles(rows.at(8), fifth_bits(gather_int32(rows.at(4))), emit);
  }
};

struct TypeQ8_0 : Type32 {
  static constexpr int kBlockBytes = 34;
  static constexpr int kMaxCode = 255;
  static constexpr int kBias = kSignedBias;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { h.d = gather_half(rows); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    for (int column = 0; column < 32; column += 16) {
      Ints q[4];
      gather_16_bytes(rows.at(2 + static_cast<size_t>(column)), q);
      for (Ints& v : q) v = signed_codes(v);
      emit(column, q);
    }
  }
};

struct TypeIQ4_NL : Type32 {
  static constexpr int kBlockBytes = 18;
  static constexpr int kMaxCode = 255;
  static constexpr int kBias = kSignedBias;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { h.d = gather_half(rows); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    emit_nibbles(
        rows.at(2), [](Ints n, auto) __attribute__((always_inline)) { return look_up(kTables.nl, n); }, emit);
  }
};

struct TypeMXFP4 : Type32 {
  static constexpr int kBlockBytes = 17;
  static constexpr int kMaxCode = 24;
  static constexpr int kBias = 12;
  // 2^(e - 128): the exponent field for e >= 2; 0x00400000 for e = 1 and 0x00200000 for e = 0 (subnormal).
  template <class R>
  T9_INLINE static void header(R rows, Header& h) {
    const Ints e = gather_uint8(rows);
    const Ints normal = shift_left<23>(sub_int32(e, set_int32(1)));
    const Ints tiny = shift_left<21>(add_int32(e, set_int32(1)));
    h.d = bits_to_floats(select_below(e, 2, tiny, normal));
  }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    emit_nibbles(
        rows.at(1), [](Ints n, auto) __attribute__((always_inline)) { return look_up(kTables.f4, n); }, emit);
  }
};

// ---- 256-value types ------------------------------------------------------------------------------------------------

// What the activations' sums are multiplied with: nothing, the mins (the product is M of the contract), or the scales
// (kBias times the product is taken off I).
enum class Side { kNone, kMins, kScales };

// Scales of kGroup columns each, as multiply_scaled takes them; side words in pairs of groups.
template <int Group, Side S>
struct Header256 {
  Floats d;
  Floats dmin;  // kMins only
  Ints scale[256 / Group];
  Ints side[S == Side::kNone ? 1 : 128 / Group];
};

template <int Group, Side S>
struct Type256 {
  static constexpr int kBlock = 256;
  static constexpr bool kHasM = false;
  static constexpr int kBias = 0;
  static constexpr int kGroup = Group;
  static constexpr Side kSide = S;
  using Header = Header256<Group, S>;
};

// Groups 4 * i .. 4 * i + 3, one byte each, to scales.
template <class Header>
T9_INLINE void set_scales_unsigned(Header& h, int i, Ints four) {
  h.scale[4 * i + 0] = scale_unsigned<0>(four);
  h.scale[4 * i + 1] = scale_unsigned<1>(four);
  h.scale[4 * i + 2] = scale_unsigned<2>(four);
  h.scale[4 * i + 3] = scale_unsigned<3>(four);
}
template <class Header>
T9_INLINE void set_scales_signed(Header& h, int i, Ints four) {
  h.scale[4 * i + 0] = scale_signed<0>(four);
  h.scale[4 * i + 1] = scale_signed<1>(four);
  h.scale[4 * i + 2] = scale_signed<2>(four);
  h.scale[4 * i + 3] = scale_signed<3>(four);
  h.side[2 * i + 0] = words_signed<0>(four);
  h.side[2 * i + 1] = words_signed<1>(four);
}
template <class Header>
T9_INLINE void set_mins(Header& h, int i, Ints four) {
  h.side[2 * i + 0] = words_unsigned<0>(four);
  h.side[2 * i + 1] = words_unsigned<1>(four);
}
template <class Header>
T9_INLINE void set_d_dmin(Header& h, Ints both) {
  h.d = low_half_to_floats(both);
  h.dmin = low_half_to_floats(shift_right<16>(both));
}

struct TypeQ2_K : Type256<16, Side::kMins> {
  static constexpr int kBlockBytes = 84;
  static constexpr int kMaxCode = 3;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) {
    Ints bytes[4];
    gather_16_bytes(rows, bytes);
    for (int i = 0; i < 4; ++i) {
      set_scales_unsigned(h, i, low_nibbles(bytes[i]));
      set_mins(h, i, high_nibbles(bytes[i]));
    }
    set_d_dmin(h, gather_int32(rows.at(80)));
  }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < 2; ++part) {
        Ints bytes[4];
        gather_16_bytes(rows.at(static_cast<size_t>(16 + 32 * half + 16 * part)), bytes);
        unroll<4>([&](auto t) __attribute__((always_inline)) {
          Ints q[4];
          for (int k = 0; k < 4; ++k) q[k] = and_bits(shift_right<2 * t>(bytes[k]), set_int8(3));
          emit(128 * half + 32 * t + 16 * part, q);
        });
      }
    }
  }
};

struct TypeQ3_K : Type256<16, Side::kScales> {
  static constexpr int kBlockBytes = 110;
  static constexpr int kMaxCode = 7;
  static constexpr int kBias = 4;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) {
    Ints bytes[4];  // 4 bytes of qs, then the 12 of the scales: a load from 96 would pass the end of the block
    gather_16_bytes(rows.at(92), bytes);
    const Ints high = bytes[3];
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      const Ints low = i < 2 ? low_nibbles(bytes[1 + i % 2]) : high_nibbles(bytes[1 + i % 2]);
      const Ints high2 = shift_left<4>(and_bits(shift_right<2 * i>(high), set_int8(3)));
      set_scales_signed(h, i, sub_int8(or_bits(low, high2), set_int8(32)));
    });
    h.d = gather_half(rows.at(108));
  }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    for (int part = 0; part < 2; ++part) {
      Ints mask[4];
      gather_16_bytes(rows.at(static_cast<size_t>(16 * part)), mask);
      unroll<2>([&](auto half) __attribute__((always_inline)) {
        Ints bytes[4];
        gather_16_bytes(rows.at(static_cast<size_t>(32 + 32 * half + 16 * part)), bytes);
        unroll<4>([&](auto t) __attribute__((always_inline)) {
          Ints q[4];
          for (int k = 0; k < 4; ++k) {
            const Ints low = and_bits(shift_right<2 * t>(bytes[k]), set_int8(3));
            q[k] = or_bits(low, move_bit<4 * half + t, 2>(mask[k]));
          }
          emit(128 * half + 32 * t + 16 * part, q);
        });
      });
    }
  }
};

// d, dmin and the 6-bit packing of eight scales and eight mins that begin Q4_K and Q5_K.
template <class R, class Header>
T9_INLINE void header_q4_q5_k(R rows, Header& h) {
  Ints words[4];
  gather_16_bytes(rows, words);
  const auto low6 = [](Ints v) __attribute__((always_inline)) { return and_bits(v, set_int8(63)); };
  const auto high2 = [](Ints v) __attribute__((always_inline)) { return and_bits(shift_right<2>(v), set_int8(0x30)); };
  set_d_dmin(h, words[0]);
  set_scales_unsigned(h, 0, low6(words[1]));
  set_scales_unsigned(h, 1, or_bits(low_nibbles(words[3]), high2(words[1])));
  set_mins(h, 0, low6(words[2]));
  set_mins(h, 1, or_bits(high_nibbles(words[3]), high2(words[2])));
}

struct TypeQ4_K : Type256<32, Side::kMins> {
  static constexpr int kBlockBytes = 144;
  static constexpr int kMaxCode = 15;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { header_q4_q5_k(rows, h); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    for (int pair = 0; pair < 4; ++pair) {
      Ints bytes[8], q[8];
      gather_32_bytes(rows.at(static_cast<size_t>(16 + 32 * pair)), bytes);
      for (int k = 0; k < 8; ++k) q[k] = low_nibbles(bytes[k]);
      emit(64 * pair, q);
      for (int k = 0; k < 8; ++k) q[k] = high_nibbles(bytes[k]);
      emit(64 * pair + 32, q);
    }
  }
};

struct TypeQ5_K : Type256<32, Side::kMins> {
  static constexpr int kBlockBytes = 176;
  static constexpr int kMaxCode = 31;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) { header_q4_q5_k(rows, h); }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    Ints high[8];
    gather_32_bytes(rows.at(16), high);
    unroll<4>([&](auto pair) __attribute__((always_inline)) {
      Ints bytes[8], q[8];
      gather_32_bytes(rows.at(static_cast<size_t>(48 + 32 * pair)), bytes);
      for (int k = 0; k < 8; ++k) q[k] = or_bits(low_nibbles(bytes[k]), move_bit<2 * pair, 4>(high[k]));
      emit(64 * pair, q);
      for (int k = 0; k < 8; ++k) q[k] = or_bits(high_nibbles(bytes[k]), move_bit<2 * pair + 1, 4>(high[k]));
      emit(64 * pair + 32, q);
    });
  }
};

struct TypeQ6_K : Type256<16, Side::kScales> {
  static constexpr int kBlockBytes = 210;
  static constexpr int kMaxCode = 63;
  static constexpr int kBias = 32;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) {
    Ints bytes[4];
    gather_16_bytes(rows.at(192), bytes);
    for (int i = 0; i < 4; ++i) set_scales_signed(h, i, bytes[i]);
    h.d = gather_half(rows.at(208));
  }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    for (int half = 0; half < 2; ++half) {
      for (int part = 0; part < 2; ++part) {
        const auto at = [&](int base) __attribute__((always_inline)) {
          return rows.at(static_cast<size_t>(base + 16 * part));
        };
        const int column = 128 * half + 16 * part;
        Ints high[4], low[4], q[4];
        gather_16_bytes(at(128 + 32 * half), high);
        const Ints two_bits = set_int8(0x30);
        gather_16_bytes(at(64 * half), low);
        for (int k = 0; k < 4; ++k) q[k] = or_bits(low_nibbles(low[k]), and_bits(shift_left<4>(high[k]), two_bits));
        emit(column, q);
        for (int k = 0; k < 4; ++k) q[k] = or_bits(high_nibbles(low[k]), and_bits(high[k], two_bits));
        emit(column + 64, q);
        gather_16_bytes(at(64 * half + 32), low);
        for (int k = 0; k < 4; ++k) q[k] = or_bits(low_nibbles(low[k]), and_bits(shift_left<2>(high[k]), two_bits));
        emit(column + 32, q);
        for (int k = 0; k < 4; ++k) q[k] = or_bits(high_nibbles(low[k]), and_bits(shift_right<2>(high[k]), two_bits));
        emit(column + 96, q);
      }
    }
  }
};

struct TypeIQ4_XS : Type256<32, kSignedBias == 0 ? Side::kNone : Side::kScales> {
  static constexpr int kBlockBytes = 136;
  static constexpr int kMaxCode = 255;
  static constexpr int kBias = kSignedBias;
  template <class R>
  T9_INLINE static void header(R rows, Header& h) {
    Ints words[4];  // d and scales_h; scales_l; the first codes
    gather_16_bytes(rows, words);
    h.d = low_half_to_floats(words[0]);
    Ints scale[8];
    unroll<8>([&](auto g) __attribute__((always_inline)) {
      const Ints low = and_bits(shift_right<4 * g>(words[1]), set_int32(15));
      const Ints high = and_bits(shift_right<16 + 2 * g>(words[0]), set_int32(3));
      scale[g] = sub_int32(or_bits(low, shift_left<4>(high)), set_int32(32));
      h.scale[g] = scale_int32(scale[g]);
    });
    if constexpr (kSide == Side::kScales) {
      for (int i = 0; i < 4; ++i) {
        h.side[i] = or_bits(and_bits(scale[2 * i], set_int32(0xffff)), shift_left<16>(scale[2 * i + 1]));
      }
    }
  }
  template <class R, class Emit>
  T9_INLINE static void codes(R rows, Emit&& emit) {
    for (int group = 0; group < 8; ++group) {
      emit_nibbles(
          rows.at(static_cast<size_t>(8 + 16 * group)),
          [](Ints n, auto) __attribute__((always_inline)) { return look_up(kTables.nl, n); },
          [&](int column, const auto& q) __attribute__((always_inline)) { emit(32 * group + column, q); });
    }
  }
};

// Calls f(std::type_identity<Type>) for the type that stands for `dtype`; returns its result, or `otherwise`.
template <class F, class R>
R with_type(tensor::DType dtype, F&& f, R otherwise) {
  switch (dtype) {
    using enum tensor::DType;
    case kQ4_0:
      return f(std::type_identity<TypeQ4_0>{});
    case kQ4_1:
      return f(std::type_identity<TypeQ4_1>{});
    case kQ5_0:
      return f(std::type_identity<TypeQ5_0>{});
    case kQ5_1:
      return f(std::type_identity<TypeQ5_1>{});
    case kQ8_0:
      return f(std::type_identity<TypeQ8_0>{});
    case kIQ4_NL:
      return f(std::type_identity<TypeIQ4_NL>{});
    case kMXFP4:
      return f(std::type_identity<TypeMXFP4>{});
    case kQ2_K:
      return f(std::type_identity<TypeQ2_K>{});
    case kQ3_K:
      return f(std::type_identity<TypeQ3_K>{});
    case kQ4_K:
      return f(std::type_identity<TypeQ4_K>{});
    case kQ5_K:
      return f(std::type_identity<TypeQ5_K>{});
    case kQ6_K:
      return f(std::type_identity<TypeQ6_K>{});
    case kIQ4_XS:
      return f(std::type_identity<TypeIQ4_XS>{});
    default:
      return otherwise;
  }
}
