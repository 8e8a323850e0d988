#pragma once

#include <arm_neon.h>

#include <algorithm>

#include "core/half.h"

namespace lite {

// The micro-kernel gemm_8x16_f16: eight products an instruction, which are added up in float16 for a while and then in
// float32.
struct HalfTile {
  static constexpr int kRows = 8, kColumns = 16;
  static constexpr int64_t kTogether = 32;  // products that are added up in float16
  using Sums = float[kRows][kColumns];

  // sums[r][column] += rows[r][from + i] panel[i][column] for `count` i.
  static void add(int64_t count, const Half* const* rows, int64_t from, const Half* panel, Sums& sums) {
    for (int64_t i = 0; i < count; i += kTogether) {
      some(std::min(count - i, kTogether), rows, from + i, panel + i * kColumns, sums);
    }
  }

  static float16x8_t load(const Half* from) { return vreinterpretq_f16_u16(vld1q_u16(&from->bits)); }

 private:
  __attribute__((noinline)) static void some(int64_t count, const Half* const* rows, int64_t from, const Half* panel,
                                             Sums& sums) {
    float16x8_t acc[kRows][2];
    const Half* row[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      acc[r][0] = acc[r][1] = vreinterpretq_f16_u16(vdupq_n_u16(0));
      row[r] = rows[r] + from;
    }
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      float16x8_t x[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) x[r] = load(row[r] + i);
      step<0>(x, panel, acc);
      step<1>(x, panel, acc);
      step<2>(x, panel, acc);
      step<3>(x, panel, acc);
      step<4>(x, panel, acc);
      step<5>(x, panel, acc);
      step<6>(x, panel, acc);
      step<7>(x, panel, acc);
      panel += 8 * kColumns;
    }
    for (; i < count; ++i, panel += kColumns) {
      const float16x8_t b0 = load(panel), b1 = load(panel + 8);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float16x8_t x = vreinterpretq_f16_u16(vld1q_dup_u16(&row[r][i].bits));
        acc[r][0] = vfmaq_f16(acc[r][0], b0, x);
        acc[r][1] = vfmaq_f16(acc[r][1], b1, x);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      add_to(sums[r], acc[r][0]);
      add_to(sums[r] + 8, acc[r][1]);
    }
  }

  // Lane L of each row of x by row L of the panel.
  template <int L>
  __attribute__((always_inline)) static inline void step(const float16x8_t (&x)[kRows], const Half* panel,
                                                         float16x8_t (&acc)[kRows][2]) {
    const float16x8_t b0 = load(panel + L * kColumns), b1 = load(panel + L * kColumns + 8);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      add_lane<L>(b0, x[r], acc[r][0]);
      add_lane<L>(b1, x[r], acc[r][1]);
    }
  }

  // sum += b x[L]. The instruction takes a lane of the lower 16 registers alone; left to itself, GCC 12 copies each
  // lane into a register of its own instead. In this order, and where `some` stands alone, everything has a register.
  template <int L>
  __attribute__((always_inline)) static inline void add_lane(float16x8_t b, float16x8_t x, float16x8_t& sum) {
    asm volatile("fmla %0.8h, %1.8h, %2.h[%3]" : "+w"(sum) : "w"(b), "x"(x), "i"(L));
  }

  static void add_to(float* sums, float16x8_t more) {
    vst1q_f32(sums, vaddq_f32(vld1q_f32(sums), vcvt_f32_f16(vget_low_f16(more))));
    vst1q_f32(sums + 4, vaddq_f32(vld1q_f32(sums + 4), vcvt_high_f32_f16(more)));
  }
};

}  // namespace lite
