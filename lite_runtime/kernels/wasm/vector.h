#pragma once

#include <wasm_simd128.h>

#include <cstdint>
#include <cstring>

namespace lite {

// WebAssembly's SIMD128 behind the names that kernels/vector and kernels/gemm are written in. `n` is a number of lanes,
// at least 1; what lies behind is neither read nor written, and is 0 in the register.
struct Wasm {
  using V = float __attribute__((__vector_size__(16)));
  using Mask = V;                                    // lanes that are all ones or all zeros
  static constexpr int kLanes = 4, kRegisters = 16;  // registers: of engines on x86
  static constexpr bool kMasks = false;

  static V load(const float* p) { return v(wasm_v128_load(p)); }
  static V load_once(const float* p) { return load(p); }
  static V load(const float* p, int n) {
    if (n == kLanes) return load(p);
    if (n == 1) return v(wasm_v128_load32_zero(p));
    const v128_t two = wasm_v128_load64_zero(p);
    return v(n == 2 ? two : wasm_v128_load32_lane(p + 2, two, 2));
  }
  static void store(float* p, V a) { wasm_v128_store(p, a); }
  static void store(float* p, V a, int n) {
    if (n == kLanes) return store(p, a);
    if (n == 1) return wasm_v128_store32_lane(p, a, 0);
    wasm_v128_store64_lane(p, a, 0);
    if (n == 3) wasm_v128_store32_lane(p + 2, a, 2);
  }
  static V all(float x) { return v(wasm_f32x4_splat(x)); }
  static V first(V a, int n, V rest) {
    return v(wasm_v128_bitselect(a, rest, wasm_i32x4_lt(wasm_i32x4_const(0, 1, 2, 3), wasm_i32x4_splat(n))));
  }

  static V fma(V a, V b, V c) { return a * b + c; }  // there is no fused one: two roundings
  // Where an operand is NaN the result is b, as on x86: one instruction there, unlike the other minimum.
  static V min(V a, V b) { return v(wasm_f32x4_pmin(b, a)); }
  static V max(V a, V b) { return v(wasm_f32x4_pmax(b, a)); }
  static V sqrt(V a) { return v(wasm_f32x4_sqrt(a)); }
  static V abs(V a) { return v(wasm_f32x4_abs(a)); }
  static V round(V a) { return v(wasm_f32x4_nearest(a)); }
  static V floor(V a) { return v(wasm_f32x4_floor(a)); }
  static V ceil(V a) { return v(wasm_f32x4_ceil(a)); }
  static V with_sign_of(V a, V sign) { return v(wasm_v128_bitselect(sign, a, wasm_f32x4_const_splat(-0.0f))); }
  // 2^n for whole n in [-126, 127]
  static V power_of_two(V n) {
    return v(wasm_i32x4_shl(wasm_i32x4_add(wasm_i32x4_trunc_sat_f32x4(n), wasm_i32x4_const_splat(127)), 23));
  }

  static Mask equal(V a, V b) { return v(wasm_f32x4_eq(a, b)); }
  static Mask not_below(V a, V b) { return v(wasm_v128_not(wasm_f32x4_lt(a, b))); }  // true for NaN
  static Mask below(V a, V b) { return v(wasm_f32x4_lt(a, b)); }
  static V both(V a, V b) { return v(wasm_v128_and(a, b)); }
  static V either(V a, V b) { return v(wasm_v128_or(a, b)); }
  static V without(V a, V b) { return v(wasm_v128_andnot(a, b)); }                     // a and not b
  static V select(Mask mask, V a, V b) { return v(wasm_v128_bitselect(a, b, mask)); }  // a where the mask is set
  // Masks as vectors, and back.
  static V to_lanes(Mask mask) { return mask; }
  static Mask to_mask(V lanes) { return lanes; }

  // A normal number as f 2^n with f in [1/2, 1); returns f.
  static V split(V x, V* n) {
    const v128_t field = wasm_v128_and(wasm_u32x4_shr(x, 23), wasm_i32x4_const_splat(255));
    *n = v(wasm_f32x4_convert_i32x4(wasm_i32x4_sub(field, wasm_i32x4_const_splat(126))));
    const v128_t fraction = wasm_v128_and(x, wasm_u32x4_const_splat(0x807fffff));
    return v(wasm_v128_or(fraction, wasm_u32x4_const_splat(0x3f000000)));
  }

  // Lanes of ones where a byte is not 0; and bytes of 0 and 1 from lanes of zeros and ones.
  static Mask load_truths(const uint8_t* p, int n) {
    uint32_t bytes = 0;
    n == kLanes ? std::memcpy(&bytes, p, kLanes) : std::memcpy(&bytes, p, static_cast<size_t>(n));
    const v128_t words = wasm_u16x8_extend_low_u8x16(wasm_u32x4_splat(bytes));
    return v(wasm_i32x4_ne(wasm_u32x4_extend_low_u16x8(words), wasm_i32x4_const_splat(0)));
  }
  static void store_truths(uint8_t* p, Mask mask, int n) {
    const v128_t words = wasm_i16x8_narrow_i32x4(mask, mask);
    const v128_t bytes = wasm_v128_and(wasm_i8x16_narrow_i16x8(words, words), wasm_i8x16_const_splat(1));
    const int32_t all = wasm_i32x4_extract_lane(bytes, 0);
    n == kLanes ? std::memcpy(p, &all, kLanes) : std::memcpy(p, &all, static_cast<size_t>(n));
  }

  static float sum(V a) {
    const V pairs = a + v(wasm_i32x4_shuffle(a, a, 2, 3, 0, 1));
    return pairs[0] + pairs[1];
  }
  // The sums of four vectors.
  static void sums(V a, V b, V c, V d, float* to) {
    const V ab = v(wasm_i32x4_shuffle(a, b, 0, 1, 4, 5)) + v(wasm_i32x4_shuffle(a, b, 2, 3, 6, 7));
    const V cd = v(wasm_i32x4_shuffle(c, d, 0, 1, 4, 5)) + v(wasm_i32x4_shuffle(c, d, 2, 3, 6, 7));
    store(to, v(wasm_i32x4_shuffle(ab, cd, 0, 2, 4, 6)) + v(wasm_i32x4_shuffle(ab, cd, 1, 3, 5, 7)));
  }
  static float largest(V a) {
    const V pairs = max(a, v(wasm_i32x4_shuffle(a, a, 2, 3, 0, 1)));
    return pairs[0] > pairs[1] ? pairs[0] : pairs[1];
  }

 private:
  static V v(v128_t bits) { return reinterpret_cast<V>(bits); }
};

}  // namespace lite
