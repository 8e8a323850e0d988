#pragma once

#include "kernels/avx2/vector.h"
#include "kernels/gemm/sources.h"

namespace lite {

// The micro-kernel gemm_6x16_f32: 12 accumulators, 2 vectors of B and 1 element of A fill the 16 registers.
struct Avx2Tile {
  using Isa = Avx2;
  static constexpr int kRows = 6, kColumns = 16, kLeastColumns = kColumns;
  static constexpr bool kAnyColumns = false, kTakesOffsets = true;

  // C = A B + (add ? C : bias or 0) for `rows` rows of 16 columns, all of them. A's row r has its element k at
  // a[r][index(k)]; B's row k lies at b + k b_step. Where `rows` is odd, one more is computed: a and c have a row for
  // that, which may be the last one again.
  template <class Index>
  static void run(int rows, int, int64_t k, const float* const* a, Index index, const float* b, int64_t b_step,
                  float* const* c, const float* bias, bool add) {
    if (rows <= 2) return tile<2>(k, a, index, b, b_step, c, bias, add);
    if (rows <= 4) return tile<4>(k, a, index, b, b_step, c, bias, add);
    tile<6>(k, a, index, b, b_step, c, bias, add);
  }

  // to[k][column] = from[column][k] for 16 columns.
  static void transpose(const float* const* from, int, int64_t k, float* to) {
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
      transpose_8x8(from, i, to + i * kColumns);
      transpose_8x8(from + 8, i, to + i * kColumns + 8);
    }
    for (; i < k; ++i) {
      for (int c = 0; c < kColumns; ++c) to[i * kColumns + c] = from[c][i];
    }
  }

 private:
  template <int R, class Index>
  static void tile(int64_t k, const float* const* a, Index index, const float* b, int64_t b_step, float* const* c,
                   const float* bias, bool add) {
    __m256 acc[R][2];
    if (add) {
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        acc[r][0] = _mm256_loadu_ps(c[r]);
        acc[r][1] = _mm256_loadu_ps(c[r] + 8);
      }
    } else {
      const __m256 bias0 = bias != nullptr ? _mm256_loadu_ps(bias) : _mm256_setzero_ps();
      const __m256 bias1 = bias != nullptr ? _mm256_loadu_ps(bias + 8) : _mm256_setzero_ps();
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        acc[r][0] = bias0;
        acc[r][1] = bias1;
      }
    }
    const float* row[R];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) row[r] = a[r];
    for (int64_t i = 0; i < k; ++i) {
      const int64_t at = index(i);
      const __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) {
        const __m256 x = _mm256_broadcast_ss(row[r] + at);
        acc[r][0] = _mm256_fmadd_ps(x, b0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(x, b1, acc[r][1]);
      }
      b += b_step;
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
      float* const to = c[r];
      _mm256_storeu_ps(to, acc[r][0]);
      _mm256_storeu_ps(to + 8, acc[r][1]);
    }
  }

  static void transpose_8x8(const float* const* from, int64_t k, float* to) {
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
      _mm256_storeu_ps(to + i * kColumns, _mm256_permute2f128_ps(v[i], v[i + 4], 0x20));
      _mm256_storeu_ps(to + (i + 4) * kColumns, _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    }
  }
};

}  // namespace lite
