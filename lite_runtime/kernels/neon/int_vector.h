#pragma once

#include "core/half.h"
#include "kernels/neon/vector.h"
#include "kernels/quantized.h"

namespace lite {

// scale_by_multiplier on four numbers.
struct NeonScale {
  int32x4_t multiplier, left, right;

  NeonScale(int32x4_t the_multiplier, int32x4_t shift)
      : multiplier(the_multiplier), left(vmaxq_s32(shift, vdupq_n_s32(0))), right(vminq_s32(shift, vdupq_n_s32(0))) {}

  int32x4_t operator()(int32x4_t sum) const {
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(sum, left), multiplier);
    // The shift rounds halves up; one less for numbers below 0 that are shifted at all makes it away from zero.
    const int32x4_t less = vshrq_n_s32(vandq_s32(high, right), 31);
    return vrshlq_s32(vqaddq_s32(high, less), right);
  }
};

// Eight lanes of 32 bits behind the names that kernels/int8 is written in.
struct NeonInt {
  struct V {
    int32x4_t low, high;
  };
  static constexpr int kLanes = 8;

  static V all(int32_t x) { return {vdupq_n_s32(x), vdupq_n_s32(x)}; }
  static V add(V a, V b) { return {vaddq_s32(a.low, b.low), vaddq_s32(a.high, b.high)}; }
  static V sub(V a, V b) { return {vsubq_s32(a.low, b.low), vsubq_s32(a.high, b.high)}; }
  static V times(V a, V b) { return {vmulq_s32(a.low, b.low), vmulq_s32(a.high, b.high)}; }
  static V min(V a, V b) { return {vminq_s32(a.low, b.low), vminq_s32(a.high, b.high)}; }
  static V max(V a, V b) { return {vmaxq_s32(a.low, b.low), vmaxq_s32(a.high, b.high)}; }
  static V shift_left(V a, V by) { return {vshlq_s32(a.low, by.low), vshlq_s32(a.high, by.high)}; }

  static V load_bytes(const int8_t* from) {
    const int16x8_t words = vmovl_s8(vld1_s8(from));
    return {vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)};
  }
  // Eight numbers that are within int8.
  static void store_bytes(int8_t* to, V v) {
    vst1_s8(to, vmovn_s16(vcombine_s16(vmovn_s32(v.low), vmovn_s32(v.high))));
  }

  struct Exact {
    NeonScale scale;

    Exact(int multiplier, int shift) : scale(vdupq_n_s32(multiplier), vdupq_n_s32(shift)) {}
    V operator()(V x) const { return {scale(x.low), scale(x.high)}; }
  };
  static constexpr bool kQuick = false;

  // Float vectors with as many lanes, as far as kernels/int8 wants them.
  struct F {
    struct V {
      float32x4_t low, high;

      V operator+(V b) const { return {low + b.low, high + b.high}; }
      V operator-(V b) const { return {low - b.low, high - b.high}; }
      V operator*(V b) const { return {low * b.low, high * b.high}; }
      V operator/(V b) const { return {low / b.low, high / b.high}; }
    };
    static V load(const float* p) { return {Neon::load(p), Neon::load(p + 4)}; }
    static void store(float* p, V v) { Neon::store(p, v.low), Neon::store(p + 4, v.high); }
    static V all(float x) { return {Neon::all(x), Neon::all(x)}; }
    static V abs(V a) { return {Neon::abs(a.low), Neon::abs(a.high)}; }
    static V floor(V a) { return {Neon::floor(a.low), Neon::floor(a.high)}; }
    static V with_sign_of(V a, V s) { return {Neon::with_sign_of(a.low, s.low), Neon::with_sign_of(a.high, s.high)}; }
    static V not_below(V a, V b) { return {Neon::not_below(a.low, b.low), Neon::not_below(a.high, b.high)}; }
    static V both(V a, V b) { return {Neon::both(a.low, b.low), Neon::both(a.high, b.high)}; }
  };
  static F::V to_float(V v) { return {vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)}; }
  // Eight floats of 16 bits.
  static F::V load_halves(const Half* from) {
    const float16x8_t all = vreinterpretq_f16_u16(vld1q_u16(&from->bits));
    return {vcvt_f32_f16(vget_low_f16(all)), vcvt_high_f32_f16(all)};
  }
  static V truncate(F::V f) { return {vcvtq_s32_f32(f.low), vcvtq_s32_f32(f.high)}; }
  static V to_int8_range(F::V f) {
    const float32x4_t low = vdupq_n_f32(kLowest), high = vdupq_n_f32(kHighest);
    // maxnm(NaN, low) is low
    return truncate({vminq_f32(vmaxnmq_f32(f.low, low), high), vminq_f32(vmaxnmq_f32(f.high, low), high)});
  }

  using Bytes = int8x16_t;
  static constexpr int kBytes = 16;
  static Bytes load_all(const int8_t* from) { return vld1q_s8(from); }
  static void store_all(int8_t* to, Bytes b) { vst1q_s8(to, b); }
  static Bytes max_bytes(Bytes a, Bytes b) { return vmaxq_s8(a, b); }

  // Four parts of 64 numbers; a look-up gives 0 for an index that is not in its part.
  struct Table {
    int8x16x4_t parts[4];

    explicit Table(const int8_t* from) {
      for (int p = 0; p < 4; ++p) parts[p] = vld1q_s8_x4(from + 64 * p);
    }
    void operator()(const int8_t* x, int8_t* y) const {
      uint8x16_t index = veorq_u8(vreinterpretq_u8_s8(vld1q_s8(x)), vdupq_n_u8(128));
      int8x16_t found = vdupq_n_s8(0);
      for (const int8x16x4_t& part : parts) {
        found = vorrq_s8(found, vqtbl4q_s8(part, index));
        index = vsubq_u8(index, vdupq_n_u8(64));
      }
      vst1q_s8(y, found);
    }
  };
};

}  // namespace lite
