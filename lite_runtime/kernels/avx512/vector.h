#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lite {

// AVX-512 (F, BW, DQ and VL) behind the names that kernels/vector and kernels/gemm are written in. `n` is a number of
// lanes, at least 1; what lies behind is neither read nor written, and is 0 in the register.
struct Avx512 {
  using V = __m512;
  using Mask = __mmask16;
  static constexpr int kLanes = 16, kRegisters = 32;
  static constexpr bool kMasks = true;  // loads take them at no cost

  static V load(const float* p) { return _mm512_loadu_ps(p); }
  static V load_once(const float* p) {  // by an instruction of its own, and not by each that wants it
    V v = load(p);
    asm("" : "+v"(v));
    return v;
  }
  static V load(const float* p, int n) { return n == kLanes ? load(p) : _mm512_maskz_loadu_ps(lanes(n), p); }
  static V load_lanes(const float* p, Mask lanes) { return _mm512_maskz_loadu_ps(lanes, p); }
  static void store(float* p, V v) { _mm512_storeu_ps(p, v); }
  static void store(float* p, V v, int n) { n == kLanes ? store(p, v) : _mm512_mask_storeu_ps(p, lanes(n), v); }
  static V all(float x) { return _mm512_set1_ps(x); }
  static V first(V v, int n, V rest) { return _mm512_mask_mov_ps(rest, lanes(n), v); }

  static V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }  // a b + c
  static V min(V a, V b) { return _mm512_min_ps(a, b); }
  static V max(V a, V b) { return _mm512_max_ps(a, b); }
  static V sqrt(V a) { return _mm512_sqrt_ps(a); }
  static V abs(V a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
  static V round(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static V floor(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  static V ceil(V a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
  static V with_sign_of(V a, V sign) { return _mm512_or_ps(a, _mm512_and_ps(_mm512_set1_ps(-0.0f), sign)); }
  // 2^n for whole n in [-126, 127]
  static V power_of_two(V n) {
    const __m512i whole = _mm512_cvtps_epi32(n);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(127)), 23));
  }

  static Mask equal(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  static Mask below(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static Mask not_below(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }  // true for NaN
  static Mask both(Mask a, Mask b) { return a & b; }
  static Mask either(Mask a, Mask b) { return a | b; }
  static Mask without(Mask a, Mask b) { return _kandn_mask16(b, a); }  // a and not b
  static V both(V a, V b) { return _mm512_and_ps(a, b); }
  static V either(V a, V b) { return _mm512_or_ps(a, b); }
  static V without(V a, V b) { return _mm512_andnot_ps(b, a); }
  static V both(Mask a, V b) { return _mm512_maskz_mov_ps(a, b); }  // b where the mask is set, else 0
  static V without(V a, Mask b) { return both(static_cast<Mask>(~b), a); }
  static V select(Mask mask, V a, V b) { return _mm512_mask_mov_ps(b, mask, a); }  // a where the mask is set

  // Masks as vectors, and back: lanes that are all ones or all zeros.
  static V to_lanes(Mask mask) { return _mm512_castsi512_ps(_mm512_movm_epi32(mask)); }
  static Mask to_mask(V lanes) { return _mm512_movepi32_mask(_mm512_castps_si512(lanes)); }

  // A normal number as f 2^n with f in [1/2, 1); returns f.
  static V split(V x, V* n) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i field = _mm512_and_si512(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(255));
    *n = _mm512_cvtepi32_ps(_mm512_sub_epi32(field, _mm512_set1_epi32(126)));
    const __m512i fraction = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0x807fffff)));
    return _mm512_castsi512_ps(_mm512_or_si512(fraction, _mm512_set1_epi32(0x3f000000)));
  }

  // A mask of the bytes that are not 0; and bytes of 0 and 1 from a mask.
  static Mask load_truths(const uint8_t* p, int n) {
    const __m128i bytes = _mm_maskz_loadu_epi8(lanes(n), p);
    return _mm_test_epi8_mask(bytes, bytes);
  }
  static void store_truths(uint8_t* p, Mask mask, int n) {
    _mm_mask_storeu_epi8(p, lanes(n), _mm_maskz_set1_epi8(mask, 1));
  }

  static float sum(V v) {
    const __m256 x = _mm256_add_ps(_mm512_castps512_ps256(v), upper(v));
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
  }
  // The sums of four vectors.
  static void sums(V a, V b, V c, V d, float* to) {
    const __m512d ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    const __m512d cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    const V quarters =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd)), _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd)));
    const __m256 x = _mm256_add_ps(_mm512_castps512_ps256(quarters), upper(quarters));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1)));
  }
  static float largest(V v) {
    const __m256 x = _mm256_max_ps(_mm512_castps512_ps256(v), upper(v));
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
  }

  // The first n lanes, n from 0 to 16.
  static Mask lanes(int n) { return static_cast<Mask>((1u << n) - 1); }

 private:
  static __m256 upper(V v) { return _mm512_extractf32x8_ps(v, 1); }
};

}  // namespace lite
