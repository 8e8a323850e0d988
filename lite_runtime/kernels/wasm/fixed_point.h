#pragma once

#include <wasm_simd128.h>

#include "kernels/quantized.h"

namespace lite {

// scale_by_multiplier on four numbers. There is no shift by another number a lane: shifts are products.
struct WasmScale {
  v128_t multiplier, left, right, unshifted;

  // The same for all.
  static WasmScale of(int multiplier, int shift) {
    const int32_t shifts[4] = {shift, shift, shift, shift};
    return WasmScale(wasm_i32x4_splat(multiplier), shifts);
  }

  WasmScale(v128_t the_multiplier, const int32_t* shifts) : multiplier(the_multiplier) {
    int32_t lefts[4], rights[4], none[4];
    for (int i = 0; i < 4; ++i) {
      lefts[i] = int32_t{1} << std::max(shifts[i], 0);
      rights[i] = shifts[i] < 0 ? int32_t{1} << (31 + shifts[i]) : 0;
      none[i] = shifts[i] < 0 ? 0 : -1;
    }
    left = wasm_v128_load(lefts), right = wasm_v128_load(rights), unshifted = wasm_v128_load(none);
  }

  v128_t operator()(v128_t sum) const {
    const v128_t high = high_half(wasm_i32x4_mul(sum, left), multiplier);
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

// Eight numbers that are within int8, stored.
inline void store_int8(int8_t* to, v128_t a, v128_t b) {
  const v128_t words = wasm_i16x8_narrow_i32x4(a, b);
  wasm_v128_store64_lane(to, wasm_i8x16_narrow_i16x8(words, words), 0);
}

}  // namespace lite
