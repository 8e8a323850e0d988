#pragma once

#include "kernels/avx512/vector.h"
#include "kernels/gemm/sources.h"

namespace lite {

// The micro-kernel gemm_8x48_f32: 24 accumulators, 3 vectors of B and an element of A in the 32 registers, and one
// pointer for each row of A in the others. Narrower tiles take 2 vectors or 1, and masks end them at any column.
struct Avx512Tile {
  using Isa = Avx512;
  static constexpr int kRows = 8, kColumns = 48, kLeastColumns = Isa::kLanes;
  static constexpr bool kAnyColumns = true, kTakesOffsets = true;

  // C = A B + (add ? C : bias or 0) for `rows` rows of `columns` columns; no column beyond is touched. A's row r has
  // its element k at a[r][index(k)]; B's row k lies at b + k b_step. Where `rows` is odd, one more is computed: a and c
  // have a row for that, which may be the last one again.
  template <class Index>
  static void run(int rows, int columns, int64_t k, const float* const* a, Index index, const float* b, int64_t b_step,
                  float* const* c, const float* bias, bool add) {
    using Run = void (*)(Avx512::Mask, int64_t, const float* const*, Index, const float*, int64_t, float* const*,
                         const float*, bool);
    static constexpr Run kRuns[3][kRows / 2] = {
        {tile<2, 1, Index>, tile<4, 1, Index>, tile<6, 1, Index>, tile<8, 1, Index>},
        {tile<2, 2, Index>, tile<4, 2, Index>, tile<6, 2, Index>, tile<8, 2, Index>},
        {tile<2, 3, Index>, tile<4, 3, Index>, tile<6, 3, Index>, tile<8, 3, Index>}};
    const int vectors = (columns - 1) / Isa::kLanes;  // beside the last one
    kRuns[vectors][(rows - 1) / 2](Isa::lanes(columns - vectors * Isa::kLanes), k, a, index, b, b_step, c, bias, add);
  }

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
  template <int R, int W, class Index>
  static void tile(Avx512::Mask last, int64_t k, const float* const* a, Index index, const float* b, int64_t b_step,
                   float* const* c, const float* bias, bool add) {
    const auto load = [last](const float* p, int w) {
      return w + 1 < W ? _mm512_loadu_ps(p + 16 * w) : _mm512_maskz_loadu_ps(last, p + 16 * w);
    };
    __m512 acc[R][W];
    if (add) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
        for (int w = 0; w < W; ++w) acc[r][w] = load(c[r], w);
      }
    } else {
#pragma GCC unroll 3
      for (int w = 0; w < W; ++w) acc[0][w] = bias != nullptr ? load(bias, w) : _mm512_setzero_ps();
#pragma GCC unroll 8
      for (int r = 1; r < R; ++r) {
#pragma GCC unroll 3
        for (int w = 0; w < W; ++w) acc[r][w] = acc[0][w];
      }
    }
    const float* row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) row[r] = a[r];
    for (int64_t i = 0; i < k; ++i, b += b_step) {
      const int64_t at = index(i);
      __m512 from_b[W];
#pragma GCC unroll 3
      for (int w = 0; w < W; ++w) from_b[w] = load(b, w);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512 x = _mm512_set1_ps(row[r][at]);
#pragma GCC unroll 3
        for (int w = 0; w < W; ++w) acc[r][w] = _mm512_fmadd_ps(x, from_b[w], acc[r][w]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 3
      for (int w = 0; w + 1 < W; ++w) _mm512_storeu_ps(c[r] + 16 * w, acc[r][w]);
      _mm512_mask_storeu_ps(c[r] + 16 * (W - 1), last, acc[r][W - 1]);
    }
  }

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
