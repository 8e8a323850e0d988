#pragma once

#include "core/half.h"
#include "kernels/avx512/vector.h"
#include "kernels/int8/rescale.h"

namespace lite {

// 16 lanes of 32 bits behind the names that kernels/int8 is written in, with AVX-512 F, BW, DQ and VL.
struct Avx512Int {
  using V = __m512i;
  static constexpr int kLanes = 16;

  static V load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, V v) { _mm512_storeu_si512(to, v); }
  using Sum = V;
  static Sum start(V v) { return v; }
  static V total(Sum sum) { return sum; }
  static V all(int32_t x) { return _mm512_set1_epi32(x); }
  static V all64(int64_t x) { return _mm512_set1_epi64(x); }

  static V add(V a, V b) { return _mm512_add_epi32(a, b); }
  static V sub(V a, V b) { return _mm512_sub_epi32(a, b); }
  static V times(V a, V b) { return _mm512_mullo_epi32(a, b); }
  static V min(V a, V b) { return _mm512_min_epi32(a, b); }
  static V max(V a, V b) { return _mm512_max_epi32(a, b); }
  static V and_bits(V a, V b) { return _mm512_and_si512(a, b); }
  static V above(V a, V b) { return _mm512_movm_epi32(_mm512_cmpgt_epi32_mask(a, b)); }
  static V shift_left(V a, V by) { return _mm512_sllv_epi32(a, by); }
  static V shift_right(V a, V by) { return _mm512_srlv_epi32(a, by); }
  static V shift_right_signed(V a, V by) { return _mm512_srav_epi32(a, by); }

  static V odd(V a) { return _mm512_srli_epi64(a, 32); }
  static V product64(V a, V b) { return _mm512_mul_epi32(a, b); }
  static V product64_unsigned(V a, V b) { return _mm512_mul_epu32(a, b); }
  static V add64(V a, V b) { return _mm512_add_epi64(a, b); }
  static V high(V even, V odd) { return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB); }
  static V high31(V even, V odd) {
    return _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 31), 0xAAAA, _mm512_slli_epi64(odd, 1));
  }

  struct Bounds {
    __m512i low, high;
    Bounds(int the_low, int the_high)
        : low(_mm512_set1_epi8(static_cast<char>(the_low))), high(_mm512_set1_epi8(static_cast<char>(the_high))) {}
  };

  // W vectors to bytes: a quarter of a register has four lanes of each. Stores are no wider than they need be, as those
  // that cross the border of a cache line take twice as long.
  template <int W>
  static void store_bytes(const V* v, const Bounds& bounds, int8_t* y, int width) {
    if constexpr (W == 1) {
      const __m128i low = _mm512_castsi512_si128(bounds.low), high = _mm512_castsi512_si128(bounds.high);
      const __m128i bytes = _mm_min_epi8(_mm_max_epi8(_mm512_cvtsepi32_epi8(v[0]), low), high);
      _mm_mask_storeu_epi8(y, static_cast<__mmask16>((1u << width) - 1), bytes);
    } else {
      const __m512i words = _mm512_packs_epi32(v[0], v[1]);
      const __m512i more = W > 2 ? _mm512_packs_epi32(v[2 % W], v[W - 1]) : words;
      __m512i bytes = _mm512_packs_epi16(words, more);
      if constexpr (W < 4) bytes = _mm512_maskz_compress_epi32(W == 2 ? 0x3333 : 0x7777, bytes);
      bytes = _mm512_min_epi8(_mm512_max_epi8(bytes, bounds.low), bounds.high);
      const __mmask64 there = width == 64 ? ~__mmask64{0} : (__mmask64{1} << width) - 1;
      if constexpr (W == 4) {
        _mm512_mask_storeu_epi8(y, there, bytes);
      } else {
        _mm256_mask_storeu_epi8(y, static_cast<__mmask32>(there), _mm512_castsi512_si256(bytes));
        if (width <= 32) return;
        _mm_mask_storeu_epi8(y + 32, static_cast<__mmask16>(there >> 32), _mm512_extracti32x4_epi32(bytes, 2));
      }
    }
  }

  // 16 numbers of int8, as 32-bit lanes.
  static V load_bytes(const int8_t* from) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  // 16 numbers that are within int8.
  static void store_bytes(int8_t* to, V v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(v));
  }

  // The same of int16.
  static V load_shorts(const int16_t* from) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void store_shorts(int16_t* to, V v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(v));
  }

  using Exact = Scale<Avx512Int>;
  using F = Avx512;
  static constexpr bool kQuick = true;
  static F::V to_float(V v) { return _mm512_cvtepi32_ps(v); }
  // 16 floats of 16 bits.
  static F::V load_halves(const Half* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static V truncate(F::V f) { return _mm512_cvttps_epi32(f); }
  static constexpr bool kFuses = true;
  // The maximum of NaN and a number is the second.
  static F::V within(F::V f, F::V low, F::V high) { return F::min(F::max(f, low), high); }

  using Bytes = __m512i;
  static constexpr int kBytes = 64;
  static Bytes load_all(const int8_t* from) { return load(from); }
  static void store_all(int8_t* to, Bytes b) { store(to, b); }
  static Bytes max_bytes(Bytes a, Bytes b) { return _mm512_max_epi8(a, b); }
  static Bytes min_bytes(Bytes a, Bytes b) { return _mm512_min_epi8(a, b); }
  static Bytes all_bytes(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }

  static V round(F::V f) { return _mm512_cvtps_epi32(f); }

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
      const V none = _mm512_setzero_si512();
      const V first = _mm512_unpacklo_epi8(a, b), second = _mm512_unpackhi_epi8(a, b);
      v[0] = sum(_mm512_unpacklo_epi8(none, first)), v[1] = sum(_mm512_unpackhi_epi8(none, first));
      v[2] = sum(_mm512_unpacklo_epi8(none, second)), v[3] = sum(_mm512_unpackhi_epi8(none, second));
    }
    V sum(V words) const {
      return add(_mm512_madd_epi16(words, high), _mm512_srai_epi32(_mm512_madd_epi16(words, low), 14));
    }
  };
  static void products(Bytes a, Bytes b, int a_zero, int b_zero, V* v) {
    const V none = _mm512_setzero_si512();
    product(_mm512_unpacklo_epi8(none, a), _mm512_unpacklo_epi8(none, b), a_zero, b_zero, v);
    product(_mm512_unpackhi_epi8(none, a), _mm512_unpackhi_epi8(none, b), a_zero, b_zero, v + 2);
  }
  // Of words that hold 256 a and 256 b.
  static void product(V a, V b, int a_zero, int b_zero, V* v) {
    const V x = _mm512_sub_epi16(_mm512_srai_epi16(a, 8), _mm512_set1_epi16(static_cast<int16_t>(a_zero)));
    const V y = _mm512_sub_epi16(_mm512_srai_epi16(b, 8), _mm512_set1_epi16(static_cast<int16_t>(b_zero)));
    const V low = _mm512_mullo_epi16(x, y), high = _mm512_mulhi_epi16(x, y);
    v[0] = _mm512_unpacklo_epi16(low, high), v[1] = _mm512_unpackhi_epi16(low, high);
  }
  static Bytes narrow(const V* v, int zero) {
    const V moved = _mm512_set1_epi16(static_cast<int16_t>(zero));
    return _mm512_packs_epi16(_mm512_adds_epi16(_mm512_packs_epi32(v[0], v[1]), moved),
                              _mm512_adds_epi16(_mm512_packs_epi32(v[2], v[3]), moved));
  }
  static Bytes narrow_down(V* v, int shift, int zero) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) v[i] = _mm512_sra_epi32(v[i], _mm_cvtsi32_si128(shift));
    return narrow(v, zero);
  }

  // 16 rows of 16 numbers: the low half of an index says where in a row, each of its other bits halves the rows.
  struct Table {
    __m512i rows[16];

    explicit Table(const int8_t* from) {
      for (int r = 0; r < 16; ++r) {  // x counts from -128 on: its highest bit is that of the index, turned round
        rows[r] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + (r ^ 8)));
      }
    }
    void operator()(const int8_t* x, int8_t* y) const {
      const __m512i index = load(x), place = _mm512_and_si512(index, _mm512_set1_epi8(15));
      const __mmask64 bits[4] = {_mm512_test_epi8_mask(index, _mm512_set1_epi8(16)),
                                 _mm512_test_epi8_mask(index, _mm512_set1_epi8(32)),
                                 _mm512_test_epi8_mask(index, _mm512_set1_epi8(64)), _mm512_movepi8_mask(index)};
      store(y, choose<4>(rows, place, bits));
    }
    // Of 2^n rows, the number at `place` of the one that the lowest n of the bits name.
    template <int n>
    static __m512i choose(const __m512i* from, __m512i place, const __mmask64* bits) {
      if constexpr (n == 0) {
        return _mm512_shuffle_epi8(*from, place);
      } else if constexpr (n == 1) {  // a shuffle and its blend are one instruction
        return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(from[0], place), bits[0], from[1], place);
      } else {
        const __m512i low = choose<n - 1>(from, place, bits), high = choose<n - 1>(from + (1 << (n - 1)), place, bits);
        return _mm512_mask_blend_epi8(bits[n - 1], low, high);
      }
    }
  };
};

}  // namespace lite
