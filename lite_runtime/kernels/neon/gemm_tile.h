#pragma once

#include "kernels/gemm/tile.h"
#include "kernels/neon/vector.h"

namespace lite {

// The micro-kernel gemm_8x8_f32: 16 accumulators; a vector of A gives 4 factors, one a lane. B holds floats, or Halves
// that are widened when they are in a register.
template <typename Weight_>
struct NeonProduct {
  using Isa = Neon;
  using Weight = Weight_;
  static constexpr int kRows = 8, kColumns = 8, kLeastColumns = kColumns, kMostColumns = kColumns;
  static constexpr bool kAnyColumns = false, kTakesOffsets = false;

  // C = limits(A B + (C or bias or 0)) for `rows` rows, or more up to a multiple of 8, of `columns` columns. A's row r
  // has its element k at a[r][index(k)]; where those are Apart by more than 1, the rows of A are neighbours. B's row k
  // lies at b + k b_step, all 8 columns.
  template <class Index>
  __attribute__((noinline)) static void run(int rows, int columns, int64_t k, const float* const* a, Index index,
                                            const Weight* b, int64_t b_step, float* const* c, const TileEnds& ends) {
    for (int r = 0; r < rows; r += kRows) tile(columns, k, a + r, index, b, b_step, c + r, ends);
  }

  // to[k][column] = from[column][k] for 8 columns.
  static void transpose(const float* const* from, int, int64_t k, float* to) {
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
      transpose_4x4(from, i, to + i * kColumns);
      transpose_4x4(from + 4, i, to + i * kColumns + 4);
    }
    for (; i < k; ++i) {
      for (int c = 0; c < kColumns; ++c) to[i * kColumns + c] = from[c][i];
    }
  }
  static void transpose(const Half* const* from, int, int64_t k, Half* to) {
    for (int64_t i = 0; i < k; ++i, to += kColumns) {
      for (int c = 0; c < kColumns; ++c) to[c] = from[c][i];
    }
  }

 private:
  template <class Index>
  __attribute__((always_inline)) static inline void tile(int columns, int64_t k, const float* const* a, Index index,
                                                         const Weight* b, int64_t b_step, float* const* c,
                                                         const TileEnds& ends) {
    const int first = std::min(columns, 4), second = columns - first;
    float32x4_t acc[8][2];
    start(c, ends, first, second, acc);
    multiply(k, a, index, b, b_step, acc);
    const float32x4_t low = vdupq_n_f32(ends.limits.low), high = vdupq_n_f32(ends.limits.high);
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) {
      float* const to = c[r];
      Neon::store(to, Neon::min(high, Neon::max(low, acc[r][0])), first);
      if (second > 0) Neon::store(to + 4, Neon::min(high, Neon::max(low, acc[r][1])), second);
    }
  }

  using Accumulators = float32x4_t[8][2];
  struct Columns {  // of a row of B
    float32x4_t low, high;
  };

  static Columns columns(const float* b) { return {vld1q_f32(b), vld1q_f32(b + 4)}; }
  static Columns columns(const Half* b) {
    const float16x8_t all = vreinterpretq_f16_u16(vld1q_u16(&b->bits));
    return {vcvt_f32_f16(vget_low_f16(all)), vcvt_high_f32_f16(all)};
  }

  __attribute__((always_inline)) static inline void start(const float* const* c, const TileEnds& ends, int first,
                                                          int second, Accumulators& acc) {
    const auto load = [&](const float* from, float32x4_t(&to)[2]) {
      to[0] = from != nullptr ? Neon::load(from, first) : vdupq_n_f32(0.0f);
      to[1] = from != nullptr && second > 0 ? Neon::load(from + 4, second) : vdupq_n_f32(0.0f);
    };
    load(ends.bias, acc[0]);
#pragma GCC unroll 8
    for (int r = 7; r >= 0; --r) {
      if (ends.add) {
        load(c[r], acc[r]);
      } else {
        acc[r][0] = acc[0][0];
        acc[r][1] = acc[0][1];
      }
    }
  }

  __attribute__((always_inline)) static inline void multiply(int64_t k, const float* const* a, Apart index,
                                                             const Weight* b, int64_t b_step, Accumulators& acc) {
    index.step == 1 ? add_rows(k, a, b, b_step, acc) : add_neighbours(k, a[0], index.step, b, b_step, acc);
  }

  // Elements of A that lie anywhere: one of each row at a time.
  __attribute__((always_inline)) static inline void multiply(int64_t k, const float* const* a, At index,
                                                             const Weight* b, int64_t b_step, Accumulators& acc) {
    const float* row[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) row[r] = a[r];
    for (int64_t i = 0; i < k; ++i, b += b_step) {
      const int64_t at = index(i);
      const Columns from_b = columns(b);
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r) {
        const float32x4_t x = vld1q_dup_f32(row[r] + at);
        acc[r][0] = vfmaq_f32(acc[r][0], x, from_b.low);
        acc[r][1] = vfmaq_f32(acc[r][1], x, from_b.high);
      }
    }
  }

  // Rows of A that lie anywhere: 4 elements of each at a time.
  __attribute__((always_inline)) static inline void add_rows(int64_t k, const float* const* a, const Weight* b,
                                                             int64_t b_step, Accumulators& acc) {
    const float* row[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; ++r) row[r] = a[r];
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
      float32x4_t x[8];
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r) x[r] = vld1q_f32(row[r] + i);
#pragma GCC unroll 4
      for (int l = 0; l < 4; ++l, b += b_step) {
        const Columns from_b = columns(b);
#pragma GCC unroll 8
        for (int r = 0; r < 8; ++r) {
          acc[r][0] = vfmaq_n_f32(acc[r][0], from_b.low, x[r][l]);
          acc[r][1] = vfmaq_n_f32(acc[r][1], from_b.high, x[r][l]);
        }
      }
    }
    for (; i < k; ++i, b += b_step) {
      const Columns from_b = columns(b);
#pragma GCC unroll 8
      for (int r = 0; r < 8; ++r) {
        const float32x4_t x = vld1q_dup_f32(row[r] + i);
        acc[r][0] = vfmaq_f32(acc[r][0], from_b.low, x);
        acc[r][1] = vfmaq_f32(acc[r][1], from_b.high, x);
      }
    }
  }

  // Neighbouring rows of A: one element of all 8 at a time.
  __attribute__((always_inline)) static inline void add_neighbours(int64_t k, const float* a, int64_t a_step,
                                                                   const Weight* b, int64_t b_step, Accumulators& acc) {
    for (int64_t i = 0; i < k; ++i, a += a_step, b += b_step) {
      const Columns from_b = columns(b);
      const float32x4_t x0 = vld1q_f32(a), x1 = vld1q_f32(a + 4);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        acc[r][0] = vfmaq_n_f32(acc[r][0], from_b.low, x0[r]);
        acc[r][1] = vfmaq_n_f32(acc[r][1], from_b.high, x0[r]);
        acc[r + 4][0] = vfmaq_n_f32(acc[r + 4][0], from_b.low, x1[r]);
        acc[r + 4][1] = vfmaq_n_f32(acc[r + 4][1], from_b.high, x1[r]);
      }
    }
  }

  static void transpose_4x4(const float* const* from, int64_t k, float* to) {
    const float32x4_t a = vld1q_f32(from[0] + k), b = vld1q_f32(from[1] + k);
    const float32x4_t c = vld1q_f32(from[2] + k), d = vld1q_f32(from[3] + k);
    const float64x2_t ab0 = vreinterpretq_f64_f32(vtrn1q_f32(a, b)), ab1 = vreinterpretq_f64_f32(vtrn2q_f32(a, b));
    const float64x2_t cd0 = vreinterpretq_f64_f32(vtrn1q_f32(c, d)), cd1 = vreinterpretq_f64_f32(vtrn2q_f32(c, d));
    vst1q_f32(to, vreinterpretq_f32_f64(vtrn1q_f64(ab0, cd0)));
    vst1q_f32(to + kColumns, vreinterpretq_f32_f64(vtrn1q_f64(ab1, cd1)));
    vst1q_f32(to + 2 * kColumns, vreinterpretq_f32_f64(vtrn2q_f64(ab0, cd0)));
    vst1q_f32(to + 3 * kColumns, vreinterpretq_f32_f64(vtrn2q_f64(ab1, cd1)));
  }
};

using NeonTile = NeonProduct<float>;
using NeonHalfTile = NeonProduct<Half>;

}  // namespace lite
