#pragma once

#include <wasm_simd128.h>

#include "kernels/quantized.h"

// The arithmetic of kernels/quantized.h on four numbers at a time.

namespace lite {

// scale_by_multiplier, after a bias was added. There is no shift by another number a lane: shifts are products.
struct Scale {
  v128_t bias, multiplier, left, right, unshifted;

  // Four of the 8 channels that pack_channels laid out.
  static Scale of_channels(const int32_t* channels) {
    return Scale(wasm_v128_load(channels), wasm_v128_load(channels + 8), channels + 16);
  }
  // The same for all.
  static Scale of(int multiplier, int shift) {
    const int32_t shifts[4] = {shift, shift, shift, shift};
    return Scale(wasm_i32x4_const_splat(0), wasm_i32x4_splat(multiplier), shifts);
  }

  Scale(v128_t the_bias, v128_t the_multiplier, const int32_t* shifts) : bias(the_bias), multiplier(the_multiplier) {
    int32_t lefts[4], rights[4], none[4];
    for (int i = 0; i < 4; ++i) {
      lefts[i] = int32_t{1} << std::max(shifts[i], 0);
      rights[i] = shifts[i] < 0 ? int32_t{1} << (31 + shifts[i]) : 0;
      none[i] = shifts[i] < 0 ? 0 : -1;
    }
    left = wasm_v128_load(lefts), right = wasm_v128_load(rights), unshifted = wasm_v128_load(none);
  }

  v128_t operator()(v128_t sum) const {
    const v128_t high = high_half(wasm_i32x4_mul(wasm_i32x4_add(sum, bias), left), multiplier);
    // The product rounds halves up; one less for numbers below 0 makes it away from zero.
    const v128_t shifted = high_half(wasm_i32x4_add(high, wasm_i32x4_shr(high, 31)), right);
    return wasm_v128_bitselect(high, shifted, unshifted);
  }

 private:
  // The doubled products' high halves, rounded to nearest.
  static v128_t high_half(v128_t a, v128_t b) {
    const v128_t half = wasm_i64x2_const_splat(int64_t{1} << 30);
    const v128_t low = wasm_i64x2_add(wasm_i64x2_extmul_low_i32x4(a, b), half);
    const v128_t high = wasm_i64x2_add(wasm_i64x2_extmul_high_i32x4(a, b), half);
    return wasm_i32x4_shuffle(wasm_i64x2_add(low, low), wasm_i64x2_add(high, high), 1, 3, 5, 7);
  }
};

// What Stored does, but for the conversion to int8. Clamped before the zero point is added, so that the sum cannot
// overflow.
struct Bound {
  v128_t zero, low, high;

  explicit Bound(const Stored& stored)
      : zero(wasm_i32x4_splat(stored.zero)),
        low(wasm_i32x4_splat(stored.low - stored.zero)),
        high(wasm_i32x4_splat(stored.high - stored.zero)) {}

  v128_t operator()(v128_t x) const { return wasm_i32x4_add(wasm_i32x4_min(wasm_i32x4_max(x, low), high), zero); }
};

// Eight numbers that are within int8, stored.
inline void store_int8(int8_t* to, v128_t a, v128_t b) {
  const v128_t words = wasm_i16x8_narrow_i32x4(a, b);
  wasm_v128_store64_lane(to, wasm_i8x16_narrow_i16x8(words, words), 0);
}

}  // namespace lite
