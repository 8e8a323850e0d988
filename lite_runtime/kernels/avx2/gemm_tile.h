#pragma once

#include "kernels/avx2/vector.h"
#include "kernels/gemm/tile.h"

namespace lite {

// The micro-kernel gemm_6x16_f32: 12 accumulators, 2 vectors of B and 1 element of A fill the 16 registers.
struct Avx2Tile : BroadcastTile<Avx2, 6, 2, 2> {
  // to[k][column] = from[column][k] for `width` columns, a multiple of 8.
  static void transpose(const float* const* from, int width, int64_t k, float* to) {
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
      for (int c = 0; c < width; c += 8) transpose_8x8(from + c, i, to + i * width + c, width);
    }
    for (; i < k; ++i) {
      for (int c = 0; c < width; ++c) to[i * width + c] = from[c][i];
    }
  }

 private:
  static void transpose_8x8(const float* const* from, int64_t k, float* to, int64_t to_step) {
    __m256 v[8], t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) v[i] = _mm256_loadu_ps(from[i] + k);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(v[2 * i], v[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(v[2 * i], v[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      v[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      v[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      v[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      v[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      _mm256_storeu_ps(to + i * to_step, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20));
      _mm256_storeu_ps(to + (i + 4) * to_step, _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    }
  }
};

}  // namespace lite
