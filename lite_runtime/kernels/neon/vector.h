#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

#include "core/half.h"

namespace lite {

// NEON of AArch64 behind the names that kernels/vector and kernels/gemm are written in. `n` is a number of lanes, at
// least 1; what lies behind is neither read nor written, and is 0 in the register.
struct Neon {
  using V = float32x4_t;
  using Mask = V;  // lanes that are all ones or all zeros
  static constexpr int kLanes = 4, kRegisters = 32;

  static V load(const float* p) { return vld1q_f32(p); }
  static V load_once(const float* p) { return load(p); }
  static V load(const float* p, int n) {
    if (n == kLanes) return load(p);
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(float));
    return vld1q_f32(lanes);
  }
  // Floats of 16 bits.
  static V load(const Half* p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&p->bits))); }
  static V load(const Half* p, int n) {
    if (n == kLanes) return load(p);
    Half lanes[kLanes];
    std::memcpy(lanes, p, static_cast<size_t>(n) * sizeof(Half));
    return load(lanes);
  }
  static void store(float* p, V v) { vst1q_f32(p, v); }
  static void store(float* p, V v, int n) {
    if (n == kLanes) return store(p, v);
    float lanes[kLanes];
    vst1q_f32(lanes, v);
    std::memcpy(p, lanes, static_cast<size_t>(n) * sizeof(float));
  }
  static V all(float x) { return vdupq_n_f32(x); }
  static V first(V v, int n, V rest) {
    const int32x4_t lane = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(lane, vdupq_n_s32(n)), v, rest);
  }

  static V fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }  // a b + c
  static V min(V a, V b) { return vminq_f32(a, b); }
  static V max(V a, V b) { return vmaxq_f32(a, b); }
  static V sqrt(V a) { return vsqrtq_f32(a); }
  static V abs(V a) { return vabsq_f32(a); }
  static V round(V a) { return vrndnq_f32(a); }
  static V floor(V a) { return vrndmq_f32(a); }
  static V ceil(V a) { return vrndpq_f32(a); }
  static V with_sign_of(V a, V sign) { return vbslq_f32(vdupq_n_u32(0x80000000u), sign, a); }
  // 2^n for whole n in [-126, 127]
  static V power_of_two(V n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23));
  }

  static Mask equal(V a, V b) { return lanes(vceqq_f32(a, b)); }
  static Mask not_below(V a, V b) { return lanes(vmvnq_u32(vcltq_f32(a, b))); }  // true for NaN
  static Mask below(V a, V b) { return lanes(vcltq_f32(a, b)); }
  static V both(V a, V b) { return lanes(vandq_u32(bits(a), bits(b))); }
  static V either(V a, V b) { return lanes(vorrq_u32(bits(a), bits(b))); }
  static V without(V a, V b) { return lanes(vbicq_u32(bits(a), bits(b))); }     // a and not b
  static V select(Mask mask, V a, V b) { return vbslq_f32(bits(mask), a, b); }  // a where the mask is set
  // Masks as vectors, and back.
  static V to_lanes(Mask mask) { return mask; }
  static Mask to_mask(V lanes) { return lanes; }

  // A normal number as f 2^n with f in [1/2, 1); returns f.
  static V split(V x, V* n) {
    const uint32x4_t field = vandq_u32(vshrq_n_u32(bits(x), 23), vdupq_n_u32(255));
    *n = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(field), vdupq_n_s32(126)));
    return lanes(vorrq_u32(vandq_u32(bits(x), vdupq_n_u32(0x807fffffu)), vdupq_n_u32(0x3f000000u)));
  }

  // Lanes of ones where a byte is not 0; and bytes of 0 and 1 from lanes of zeros and ones.
  static Mask load_truths(const uint8_t* p, int n) {
    uint32_t bytes = 0;
    n == kLanes ? std::memcpy(&bytes, p, kLanes) : std::memcpy(&bytes, p, static_cast<size_t>(n));
    const uint32x4_t wide = vmovl_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))));
    return lanes(vtstq_u32(wide, wide));
  }
  static void store_truths(uint8_t* p, Mask mask, int n) {
    const uint16x4_t words = vmovn_u32(bits(mask));
    const uint8x8_t bytes = vand_u8(vmovn_u16(vcombine_u16(words, words)), vdup_n_u8(1));
    const uint32_t all = vget_lane_u32(vreinterpret_u32_u8(bytes), 0);
    n == kLanes ? std::memcpy(p, &all, kLanes) : std::memcpy(p, &all, static_cast<size_t>(n));
  }

  static float sum(V v) { return vaddvq_f32(v); }
  // The sums of four vectors.
  static void sums(V a, V b, V c, V d, float* to) { vst1q_f32(to, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d))); }
  static float largest(V v) { return vmaxvq_f32(v); }

 private:
  static uint32x4_t bits(V v) { return vreinterpretq_u32_f32(v); }
  static V lanes(uint32x4_t v) { return vreinterpretq_f32_u32(v); }
};

}  // namespace lite
