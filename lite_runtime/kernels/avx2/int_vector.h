#pragma once

#include "core/half.h"
#include "kernels/avx2/vector.h"
#include "kernels/int8/rescale.h"

namespace lite {

// Eight lanes of 32 bits behind the names that kernels/int8 is written in, with AVX2.
struct Avx2Int {
  using V = __m256i;
  static constexpr int kLanes = 8;

  static V load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store(void* to, V v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
  using Sum = V;
  static Sum start(V v) { return v; }
  static V total(Sum sum) { return sum; }
  static V all(int32_t x) { return _mm256_set1_epi32(x); }
  static V all64(int64_t x) { return _mm256_set1_epi64x(x); }

  static V add(V a, V b) { return _mm256_add_epi32(a, b); }
  static V sub(V a, V b) { return _mm256_sub_epi32(a, b); }
  static V times(V a, V b) { return _mm256_mullo_epi32(a, b); }
  static V min(V a, V b) { return _mm256_min_epi32(a, b); }
  static V max(V a, V b) { return _mm256_max_epi32(a, b); }
  static V and_bits(V a, V b) { return _mm256_and_si256(a, b); }
  static V above(V a, V b) { return _mm256_cmpgt_epi32(a, b); }
  static V shift_left(V a, V by) { return _mm256_sllv_epi32(a, by); }
  static V shift_right(V a, V by) { return _mm256_srlv_epi32(a, by); }
  static V shift_right_signed(V a, V by) { return _mm256_srav_epi32(a, by); }

  static V odd(V a) { return _mm256_srli_epi64(a, 32); }
  static V product64(V a, V b) { return _mm256_mul_epi32(a, b); }
  static V product64_unsigned(V a, V b) { return _mm256_mul_epu32(a, b); }
  static V add64(V a, V b) { return _mm256_add_epi64(a, b); }
  static V high(V even, V odd) { return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA); }
  static V high31(V even, V odd) {
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
  }

  struct Bounds {
    __m128i low, high;
    Bounds(int the_low, int the_high)
        : low(_mm_set1_epi8(static_cast<char>(the_low))), high(_mm_set1_epi8(static_cast<char>(the_high))) {}
  };

  // One or two vectors to bytes: a half of a register has four lanes of each.
  template <int W>
  static void store_bytes(const V* v, const Bounds& bounds, int8_t* y, int width) {
    static_assert(W <= 2, "blocks of up to two vectors");
    const __m256i words = _mm256_packs_epi32(v[0], v[W - 1]), halves = _mm256_packs_epi16(words, words);
    const __m128i low = _mm256_castsi256_si128(halves), high = _mm256_extracti128_si256(halves, 1);
    const __m128i all = W == 1 ? _mm_unpacklo_epi32(low, high) : _mm_unpacklo_epi64(low, high);
    const __m128i bytes = _mm_min_epi8(_mm_max_epi8(all, bounds.low), bounds.high);
    if (width == 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
    alignas(16) int8_t buffer[16];
    _mm_store_si128(reinterpret_cast<__m128i*>(buffer), bytes);
    std::memcpy(y, buffer, static_cast<size_t>(width));
  }

  // N vectors to bytes that are `y_step` apart, saturated and bounded.
  template <int N>
  static void store_rows(const V* v, const Bounds& bounds, int8_t* y, int64_t y_step) {
    const auto to = [y, y_step](int i) { return reinterpret_cast<__m128i*>(y + i * y_step); };
    const auto bounded = [&](__m128i x) { return _mm_min_epi8(_mm_max_epi8(x, bounds.low), bounds.high); };
    const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[N > 1 ? 1 : 0]),
                                             _mm256_packs_epi32(v[N > 2 ? 2 : 0], v[N > 3 ? 3 : 0]));
    const __m256i rows = _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i low = bounded(_mm256_castsi256_si128(rows));
    _mm_storel_epi64(to(0), low);
    if constexpr (N > 1) _mm_storeh_pd(reinterpret_cast<double*>(to(1)), _mm_castsi128_pd(low));
    if constexpr (N > 2) {
      const __m128i high = bounded(_mm256_extracti128_si256(rows, 1));
      _mm_storel_epi64(to(2), high);
      if constexpr (N > 3) _mm_storeh_pd(reinterpret_cast<double*>(to(3)), _mm_castsi128_pd(high));
    }
    if constexpr (N > 4) store_rows<N - 4>(v + 4, bounds, y + 4 * y_step, y_step);
  }

  // Eight numbers of int8, as 32-bit lanes.
  static V load_bytes(const int8_t* from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  // Eight numbers that are within int8.
  static void store_bytes(int8_t* to, V v) {
    const __m256i words = _mm256_packs_epi32(v, v), bytes = _mm256_packs_epi16(words, words);
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi32(low, high));
  }

  // The same of int16.
  static V load_shorts(const int16_t* from) {
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store_shorts(int16_t* to, V v) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v, v), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(words));
  }

  using Exact = Scale<Avx2Int>;
  using F = Avx2;
  static constexpr bool kQuick = true;
  static F::V to_float(V v) { return _mm256_cvtepi32_ps(v); }
  // Eight floats of 16 bits.
  static F::V load_halves(const Half* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static V truncate(F::V f) { return _mm256_cvttps_epi32(f); }
  static constexpr bool kFuses = true;
  // The maximum of NaN and a number is the second.
  static F::V within(F::V f, F::V low, F::V high) { return F::min(F::max(f, low), high); }

  using Bytes = __m256i;
  static constexpr int kBytes = 32;
  static Bytes load_all(const int8_t* from) { return load(from); }
  static void store_all(int8_t* to, Bytes b) { store(to, b); }
  static Bytes max_bytes(Bytes a, Bytes b) { return _mm256_max_epi8(a, b); }
  static Bytes min_bytes(Bytes a, Bytes b) { return _mm256_min_epi8(a, b); }
  static Bytes all_bytes(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }

  static V round(F::V f) { return _mm256_cvtps_epi32(f); }

  // In the order that unpacking leaves, which narrow() undoes.
  struct PairSum {
    V high, low;
    PairSum(const int16_t* the_high, const int16_t* the_low) : high(pair(the_high)), low(pair(the_low)) {}
    static V pair(const int16_t* from) {
      int32_t both;
      std::memcpy(&both, from, sizeof both);
      return all(both);
    }
    void operator()(Bytes a, Bytes b, V* v) const {
      const V none = _mm256_setzero_si256();
      const V first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b);
      v[0] = sum(_mm256_unpacklo_epi8(none, first)), v[1] = sum(_mm256_unpackhi_epi8(none, first));
      v[2] = sum(_mm256_unpacklo_epi8(none, second)), v[3] = sum(_mm256_unpackhi_epi8(none, second));
    }
    V sum(V words) const {
      return add(_mm256_madd_epi16(words, high), _mm256_srai_epi32(_mm256_madd_epi16(words, low), 14));
    }
  };
  static void products(Bytes a, Bytes b, int a_zero, int b_zero, V* v) {
    const V none = _mm256_setzero_si256();
    product(_mm256_unpacklo_epi8(none, a), _mm256_unpacklo_epi8(none, b), a_zero, b_zero, v);
    product(_mm256_unpackhi_epi8(none, a), _mm256_unpackhi_epi8(none, b), a_zero, b_zero, v + 2);
  }
  // Of words that hold 256 a and 256 b.
  static void product(V a, V b, int a_zero, int b_zero, V* v) {
    const V x = _mm256_sub_epi16(_mm256_srai_epi16(a, 8), _mm256_set1_epi16(static_cast<int16_t>(a_zero)));
    const V y = _mm256_sub_epi16(_mm256_srai_epi16(b, 8), _mm256_set1_epi16(static_cast<int16_t>(b_zero)));
    const V low = _mm256_mullo_epi16(x, y), high = _mm256_mulhi_epi16(x, y);
    v[0] = _mm256_unpacklo_epi16(low, high), v[1] = _mm256_unpackhi_epi16(low, high);
  }
  static Bytes narrow(const V* v, int zero) {
    const V moved = _mm256_set1_epi16(static_cast<int16_t>(zero));
    return _mm256_packs_epi16(_mm256_adds_epi16(_mm256_packs_epi32(v[0], v[1]), moved),
                              _mm256_adds_epi16(_mm256_packs_epi32(v[2], v[3]), moved));
  }
  static Bytes narrow_down(V* v, int shift, int zero) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) v[i] = _mm256_sra_epi32(v[i], _mm_cvtsi32_si128(shift));
    return narrow(v, zero);
  }

  // 16 rows of 16 numbers. A shuffle looks at the lowest four bits, and gives 0 where the highest is set: with 16
  // less for each row, the exclusive or of all that rows give is that of up to eight which follow each other.
  struct Table {
    __m256i rows[16];

    explicit Table(const int8_t* from) {
      __m256i before = _mm256_setzero_si256();
      for (int r = 0; r < 16; ++r, from += 16) {
        const __m256i row = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
        rows[r] = _mm256_xor_si256(_mm256_xor_si256(row, before), r < 8 ? _mm256_setzero_si256() : rows[r - 8]);
        before = row;
      }
    }
    void operator()(const int8_t* x, int8_t* y) const {
      const __m256i sixteen = _mm256_set1_epi8(16);
      __m256i index = _mm256_xor_si256(load(x), _mm256_set1_epi8(-128));
      __m256i found = _mm256_shuffle_epi8(rows[0], index);
#pragma GCC unroll 16
      for (int r = 1; r < 16; ++r) {
        index = r < 9 ? _mm256_sub_epi8(index, sixteen) : _mm256_subs_epi8(index, sixteen);
        found = _mm256_xor_si256(found, _mm256_shuffle_epi8(rows[r], index));
      }
      store(y, found);
    }
  };
};

}  // namespace lite
