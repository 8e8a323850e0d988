#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lite {

// 16 channels of four rows, as columns of int8/depthwise.h have them in vectors of kBytes: groups of four channels go
// to the W vectors in turn. `first` is the number of the first group.
template <int W, int kBytes>
void interleave_sixteen(__m128i a, __m128i b, __m128i c, __m128i d, int first, uint8_t* to) {
  const __m128i low_ab = _mm_unpacklo_epi8(a, b), high_ab = _mm_unpackhi_epi8(a, b);
  const __m128i low_cd = _mm_unpacklo_epi8(c, d), high_cd = _mm_unpackhi_epi8(c, d);
  const auto put = [&](int four, __m128i v) {
    if (four / W * 16 < kBytes) {
      _mm_store_si128(reinterpret_cast<__m128i*>(to + four % W * kBytes + four / W * 16), v);
    }
  };
  put(first, _mm_unpacklo_epi16(low_ab, low_cd));
  put(first + 1, _mm_unpackhi_epi16(low_ab, low_cd));
  put(first + 2, _mm_unpacklo_epi16(high_ab, high_cd));
  put(first + 3, _mm_unpackhi_epi16(high_ab, high_cd));
}

}  // namespace lite
