#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace lite {

// AVX2 and FMA behind the names that kernels/vector and kernels/gemm are written in. `n` is a number of lanes, at
// least 1; what lies behind is neither read nor written, and is 0 in the register.
struct Avx2 {
  using V = __m256;
  using Mask = V;  // lanes that are all ones or all zeros
  static constexpr int kLanes = 8, kRegisters = 16;
  static constexpr bool kMasks = false;

  static V load(const float* p) { return _mm256_loadu_ps(p); }
  static V load_once(const float* p) {  // by an instruction of its own, and not by each that wants it
    V v = load(p);
    asm("" : "+x"(v));
    return v;
  }
  static V load(const float* p, int n) { return n == kLanes ? load(p) : _mm256_maskload_ps(p, lanes(n)); }
  static void store(float* p, V v) { _mm256_storeu_ps(p, v); }
  static void store(float* p, V v, int n) { n == kLanes ? store(p, v) : _mm256_maskstore_ps(p, lanes(n), v); }
  static V all(float x) { return _mm256_set1_ps(x); }
  static V first(V v, int n, V rest) { return _mm256_blendv_ps(rest, v, _mm256_castsi256_ps(lanes(n))); }

  static V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }  // a b + c
  static V min(V a, V b) { return _mm256_min_ps(a, b); }
  static V max(V a, V b) { return _mm256_max_ps(a, b); }
  static V sqrt(V a) { return _mm256_sqrt_ps(a); }
  static V abs(V a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static V round(V a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static V floor(V a) { return _mm256_floor_ps(a); }
  static V ceil(V a) { return _mm256_ceil_ps(a); }
  static V with_sign_of(V a, V sign) { return _mm256_or_ps(a, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign)); }
  // 2^n for whole n in [-126, 127]
  static V power_of_two(V n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
  }

  static Mask equal(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
  static Mask not_below(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_NLT_UQ); }  // true for NaN
  static V both(V a, V b) { return _mm256_and_ps(a, b); }
  static V either(V a, V b) { return _mm256_or_ps(a, b); }
  static V without(V a, V b) { return _mm256_andnot_ps(b, a); }  // a and not b

  static Mask below(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static V select(Mask mask, V a, V b) { return _mm256_blendv_ps(b, a, mask); }  // a where the mask is set
  // Masks as vectors, and back.
  static V to_lanes(Mask mask) { return mask; }
  static Mask to_mask(V lanes) { return lanes; }

  // A normal number as f 2^n with f in [1/2, 1); returns f.
  static V split(V x, V* n) {
    const __m256i bits = _mm256_castps_si256(x),
                  field = _mm256_and_si256(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(255));
    *n = _mm256_cvtepi32_ps(_mm256_sub_epi32(field, _mm256_set1_epi32(126)));
    const __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x807fffff));
    return _mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(0x3f000000)));
  }

  // Lanes of ones where a byte is not 0; and bytes of 0 and 1 from lanes of zeros and ones.
  static Mask load_truths(const uint8_t* p, int n) {
    uint64_t bytes = 0;
    n == kLanes ? std::memcpy(&bytes, p, kLanes) : std::memcpy(&bytes, p, static_cast<size_t>(n));
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes)));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_setzero_si256()));
  }
  static void store_truths(uint8_t* p, Mask mask, int n) {
    const __m256i wide = _mm256_castps_si256(mask);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    const __m128i bytes = _mm_and_si128(_mm_packs_epi16(words, words), _mm_set1_epi8(1));
    const int64_t all = _mm_cvtsi128_si64(bytes);
    n == kLanes ? std::memcpy(p, &all, kLanes) : std::memcpy(p, &all, static_cast<size_t>(n));
  }

  static float sum(V v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
  // The sums of four vectors.
  static void sums(V a, V b, V c, V d, float* to) {
    const V pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(to, _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1)));
  }
  static float largest(V v) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }

 private:
  static __m256i lanes(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace lite
