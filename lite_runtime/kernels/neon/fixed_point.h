#pragma once

#include <arm_neon.h>

#include "kernels/quantized.h"

// The arithmetic of kernels/quantized.h on four numbers at a time.

namespace lite {

// scale_by_multiplier, after a bias was added.
struct Scale {
  int32x4_t bias, multiplier, left, right;

  // Four of the 8 channels that pack_channels laid out.
  static Scale of_channels(const int32_t* channels) {
    return Scale(vld1q_s32(channels), vld1q_s32(channels + 8), vld1q_s32(channels + 16));
  }
  // The same for all.
  static Scale of(int multiplier, int shift) {
    return Scale(vdupq_n_s32(0), vdupq_n_s32(multiplier), vdupq_n_s32(shift));
  }

  Scale(int32x4_t the_bias, int32x4_t the_multiplier, int32x4_t shift)
      : bias(the_bias),
        multiplier(the_multiplier),
        left(vmaxq_s32(shift, vdupq_n_s32(0))),
        right(vminq_s32(shift, vdupq_n_s32(0))) {}

  int32x4_t operator()(int32x4_t sum) const {
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(vaddq_s32(sum, bias), left), multiplier);
    // The shift rounds halves up; one less for numbers below 0 that are shifted at all makes it away from zero.
    const int32x4_t less = vshrq_n_s32(vandq_s32(high, right), 31);
    return vrshlq_s32(vqaddq_s32(high, less), right);
  }
};

// What Stored does, but for the conversion to int8. Clamped before the zero point is added, so that the sum cannot
// overflow.
struct Bound {
  int32x4_t zero, low, high;

  explicit Bound(const Stored& stored)
      : zero(vdupq_n_s32(stored.zero)),
        low(vdupq_n_s32(stored.low - stored.zero)),
        high(vdupq_n_s32(stored.high - stored.zero)) {}

  int32x4_t operator()(int32x4_t x) const { return vaddq_s32(vminq_s32(vmaxq_s32(x, low), high), zero); }
};

// Eight numbers that are within int8.
inline int8x8_t to_int8(int32x4_t a, int32x4_t b) { return vqmovn_s16(vcombine_s16(vqmovn_s32(a), vqmovn_s32(b))); }

}  // namespace lite
