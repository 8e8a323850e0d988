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

  // The same of int16.
  static V load_shorts(const int16_t* from) {
    const int16x8_t words = vld1q_s16(from);
    return {vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)};
  }
  static void store_shorts(int16_t* to, V v) { vst1q_s16(to, vcombine_s16(vmovn_s32(v.low), vmovn_s32(v.high))); }

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
    static V with_sign_of(V a, V s) { return {Neon::with_sign_of(a.low, s.low), Neon::with_sign_of(a.high, s.high)}; }
    static V fma(V a, V b, V c) { return {Neon::fma(a.low, b.low, c.low), Neon::fma(a.high, b.high, c.high)}; }
  };
  static F::V to_float(V v) { return {vcvtq_f32_s32(v.low), vcvtq_f32_s32(v.high)}; }
  // Eight floats of 16 bits.
  static F::V load_halves(const Half* from) {
    const float16x8_t all = vreinterpretq_f16_u16(vld1q_u16(&from->bits));
    return {vcvt_f32_f16(vget_low_f16(all)), vcvt_high_f32_f16(all)};
  }
  static V truncate(F::V f) { return {vcvtq_s32_f32(f.low), vcvtq_s32_f32(f.high)}; }
  static constexpr bool kFuses = true;
  static F::V within(F::V f, F::V low, F::V high) {  // maxnm(NaN, low) is low
    return {vminq_f32(vmaxnmq_f32(f.low, low.low), high.low), vminq_f32(vmaxnmq_f32(f.high, low.high), high.high)};
  }

  using Bytes = int8x16_t;
  static constexpr int kBytes = 16;
  static Bytes load_all(const int8_t* from) { return vld1q_s8(from); }
  static void store_all(int8_t* to, Bytes b) { vst1q_s8(to, b); }
  static Bytes max_bytes(Bytes a, Bytes b) { return vmaxq_s8(a, b); }
  static Bytes min_bytes(Bytes a, Bytes b) { return vminq_s8(a, b); }
  static Bytes all_bytes(int x) { return vdupq_n_s8(static_cast<int8_t>(x)); }

  static V round(F::V f) { return {vcvtnq_s32_f32(f.low), vcvtnq_s32_f32(f.high)}; }

  struct PairSum {
    int16x4_t high, low;  // two factors each

    PairSum(const int16_t* the_high, const int16_t* the_low) : high(pair(the_high)), low(pair(the_low)) {}
    static int16x4_t pair(const int16_t* from) { return vset_lane_s16(from[1], vdup_n_s16(from[0]), 1); }
    void operator()(Bytes a, Bytes b, V* v) const {
      v[0] = sum(vshll_n_s8(vget_low_s8(a), 8), vshll_n_s8(vget_low_s8(b), 8));
      v[1] = sum(vshll_high_n_s8(a, 8), vshll_high_n_s8(b, 8));
    }
    V sum(int16x8_t a, int16x8_t b) const {
      const int32x4_t first = vmlal_lane_s16(vmull_lane_s16(vget_low_s16(a), low, 0), vget_low_s16(b), low, 1);
      const int32x4_t second = vmlal_high_lane_s16(vmull_high_lane_s16(a, low, 0), b, low, 1);
      return {
          vsraq_n_s32(vmlal_lane_s16(vmull_lane_s16(vget_low_s16(a), high, 0), vget_low_s16(b), high, 1), first, 14),
          vsraq_n_s32(vmlal_high_lane_s16(vmull_high_lane_s16(a, high, 0), b, high, 1), second, 14)};
    }
  };
  static void products(Bytes a, Bytes b, int a_zero, int b_zero, V* v) {
    const int16x8_t moved_a = vdupq_n_s16(static_cast<int16_t>(a_zero));
    const int16x8_t moved_b = vdupq_n_s16(static_cast<int16_t>(b_zero));
    const auto product = [](int16x8_t x, int16x8_t y) {
      return V{vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)};
    };
    v[0] = product(vsubq_s16(vmovl_s8(vget_low_s8(a)), moved_a), vsubq_s16(vmovl_s8(vget_low_s8(b)), moved_b));
    v[1] = product(vsubq_s16(vmovl_high_s8(a), moved_a), vsubq_s16(vmovl_high_s8(b), moved_b));
  }
  static Bytes narrow(const V* v, int zero) {
    const int16x8_t moved = vdupq_n_s16(static_cast<int16_t>(zero));
    const auto words = [moved](V x) { return vqaddq_s16(vqmovn_high_s32(vqmovn_s32(x.low), x.high), moved); };
    return vqmovn_high_s16(vqmovn_s16(words(v[0])), words(v[1]));
  }
  // Upper halves are what a shift by 16 gives.
  static Bytes narrow_down(const V* v, int shift, int zero) {
    const int16x8_t moved = vdupq_n_s16(static_cast<int16_t>(zero)),
                    left = vdupq_n_s16(static_cast<int16_t>(16 - shift));
    const auto words = [moved, left](V x) {
      const int16x8_t high = vuzp2q_s16(vreinterpretq_s16_s32(x.low), vreinterpretq_s16_s32(x.high));
      return vqaddq_s16(vshlq_s16(high, left), moved);
    };
    return vqmovn_high_s16(vqmovn_s16(words(v[0])), words(v[1]));
  }

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
