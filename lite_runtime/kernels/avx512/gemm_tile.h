#pragma once

#include "kernels/avx512/vector.h"
#include "kernels/gemm/tile.h"

namespace lite {

// The micro-kernel gemm_8x48_f32: 24 accumulators, 3 vectors of B and an element of A in the 32 registers, and one
// pointer for each row of A in the others; and 6 x 64 where a vector would be left over, for which a tile of its own
// would wait for elements of A. Masks end tiles at any column.
struct Avx512Tile : BroadcastTile<Avx512, 8, 3, 2, 6> {
  // to[k][column] = from[column][k] for `width` columns, a multiple of 16.
  static void transpose(const float* const* from, int width, int64_t k, float* to) {
    int64_t i = 0;
    for (; i + 16 <= k; i += 16) {
      for (int c = 0; c < width; c += 16) transpose_16x16(from + c, i, to + i * width + c, width);
    }
    for (; i < k; ++i) {
      for (int c = 0; c < width; ++c) to[i * width + c] = from[c][i];
    }
  }

 private:
  // to[i to_step + c] = from[c][k + i]: in squares of 4 within quarters of registers, then of whole quarters.
  static void transpose_16x16(const float* const* from, int64_t k, float* to, int64_t to_step) {
    __m512 v[16], t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = _mm512_loadu_ps(from[i] + k);
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
      const __m512 low01 = _mm512_unpacklo_ps(v[i], v[i + 1]), high01 = _mm512_unpackhi_ps(v[i], v[i + 1]);
      const __m512 low23 = _mm512_unpacklo_ps(v[i + 2], v[i + 3]), high23 = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
      t[i] = _mm512_shuffle_ps(low01, low23, 0x44);  // element 0 of each quarter of rows i to i + 3
      t[i + 1] = _mm512_shuffle_ps(low01, low23, 0xee);
      t[i + 2] = _mm512_shuffle_ps(high01, high23, 0x44);
      t[i + 3] = _mm512_shuffle_ps(high01, high23, 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512 even0 = _mm512_shuffle_f32x4(t[i], t[4 + i], 0x88),
                   odd0 = _mm512_shuffle_f32x4(t[i], t[4 + i], 0xdd);
      const __m512 even1 = _mm512_shuffle_f32x4(t[8 + i], t[12 + i], 0x88),
                   odd1 = _mm512_shuffle_f32x4(t[8 + i], t[12 + i], 0xdd);
      _mm512_storeu_ps(to + i * to_step, _mm512_shuffle_f32x4(even0, even1, 0x88));
      _mm512_storeu_ps(to + (4 + i) * to_step, _mm512_shuffle_f32x4(odd0, odd1, 0x88));
      _mm512_storeu_ps(to + (8 + i) * to_step, _mm512_shuffle_f32x4(even0, even1, 0xdd));
      _mm512_storeu_ps(to + (12 + i) * to_step, _mm512_shuffle_f32x4(odd0, odd1, 0xdd));
    }
  }
};

}  // namespace lite
