#pragma once

#include <immintrin.h>

#include "kernels/quantized.h"

// The arithmetic of kernels/quantized.h on eight numbers at a time.

namespace lite {

inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline void store(void* to, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }

// 16 numbers from int8 to int16.
inline __m256i load_wide(const int8_t* from) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

// scale_by_multiplier, after a bias was added.
struct Scale {
  __m256i bias, multiplier, left, right, mask, half;

  // Eight of the 16 channels that pack_channels laid out.
  static Scale of_channels(const int32_t* channels) {
    return Scale(load(channels), load(channels + 16), load(channels + 32));
  }
  // The same for all.
  static Scale of(int multiplier, int shift) {
    return Scale(_mm256_setzero_si256(), _mm256_set1_epi32(multiplier), _mm256_set1_epi32(shift));
  }

  Scale(__m256i the_bias, __m256i the_multiplier, __m256i shift) : bias(the_bias), multiplier(the_multiplier) {
    const __m256i none = _mm256_setzero_si256();
    left = _mm256_max_epi32(shift, none);
    right = _mm256_max_epi32(_mm256_sub_epi32(none, shift), none);
    mask = _mm256_sub_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), right), _mm256_set1_epi32(1));
    half = _mm256_srli_epi32(mask, 1);
  }

  __m256i operator()(__m256i sum) const {
    const __m256i x = _mm256_sllv_epi32(_mm256_add_epi32(sum, bias), left);
    const __m256i nudge = _mm256_set1_epi64x(int64_t{1} << 30);
    const __m256i even = _mm256_add_epi64(_mm256_mul_epi32(x, multiplier), nudge);
    const __m256i odd =
        _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(multiplier, 32)), nudge);
    // Bits 31 to 62 of each product, in the places that the factors had.
    const __m256i high = _mm256_blend_epi32(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1), 0xAA);
    const __m256i threshold = _mm256_sub_epi32(half, _mm256_srai_epi32(high, 31));
    const __m256i up = _mm256_cmpgt_epi32(_mm256_and_si256(high, mask), threshold);
    return _mm256_sub_epi32(_mm256_srav_epi32(high, right), up);
  }
};

// What Stored does, but for the conversion to int8. Clamped before the zero point is added, so that the sum cannot
// overflow.
struct Bound {
  __m256i zero, low, high;

  explicit Bound(const Stored& stored)
      : zero(_mm256_set1_epi32(stored.zero)),
        low(_mm256_set1_epi32(stored.low - stored.zero)),
        high(_mm256_set1_epi32(stored.high - stored.zero)) {}

  __m256i operator()(__m256i x) const {
    return _mm256_add_epi32(_mm256_min_epi32(_mm256_max_epi32(x, low), high), zero);
  }
};

// 16 numbers that are within int8.
inline __m128i to_int8(__m256i a, __m256i b) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
  return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

}  // namespace lite
