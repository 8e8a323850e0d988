#pragma once

#include "core/half.h"
#include "kernels/quantized.h"
#include "kernels/wasm/fixed_point.h"
#include "kernels/wasm/vector.h"

namespace lite {

// Eight lanes of 32 bits behind the names that kernels/int8 is written in.
struct WasmInt {
  struct V {
    v128_t low, high;
  };
  static constexpr int kLanes = 8;

  static V all(int32_t x) { return {wasm_i32x4_splat(x), wasm_i32x4_splat(x)}; }
  static V add(V a, V b) { return {wasm_i32x4_add(a.low, b.low), wasm_i32x4_add(a.high, b.high)}; }
  static V sub(V a, V b) { return {wasm_i32x4_sub(a.low, b.low), wasm_i32x4_sub(a.high, b.high)}; }
  static V times(V a, V b) { return {wasm_i32x4_mul(a.low, b.low), wasm_i32x4_mul(a.high, b.high)}; }
  static V min(V a, V b) { return {wasm_i32x4_min(a.low, b.low), wasm_i32x4_min(a.high, b.high)}; }
  static V max(V a, V b) { return {wasm_i32x4_max(a.low, b.low), wasm_i32x4_max(a.high, b.high)}; }
  // `by` is the same in all lanes: there is no shift by another number a lane.
  static V shift_left(V a, V by) {
    const uint32_t n = static_cast<uint32_t>(wasm_i32x4_extract_lane(by.low, 0));
    return {wasm_i32x4_shl(a.low, n), wasm_i32x4_shl(a.high, n)};
  }

  static V load_bytes(const int8_t* from) {
    const v128_t words = wasm_i16x8_load8x8(from);
    return {wasm_i32x4_extend_low_i16x8(words), wasm_i32x4_extend_high_i16x8(words)};
  }
  // Eight numbers that are within int8.
  static void store_bytes(int8_t* to, V v) { store_int8(to, v.low, v.high); }

  // The same of int16.
  static V load_shorts(const int16_t* from) {
    const v128_t words = wasm_v128_load(from);
    return {wasm_i32x4_extend_low_i16x8(words), wasm_i32x4_extend_high_i16x8(words)};
  }
  static void store_shorts(int16_t* to, V v) { wasm_v128_store(to, wasm_i16x8_narrow_i32x4(v.low, v.high)); }

  struct Exact {
    WasmScale scale;

    Exact(int multiplier, int shift) : scale(WasmScale::of(multiplier, shift)) {}
    V operator()(V x) const { return {scale(x.low), scale(x.high)}; }
  };
  static constexpr bool kQuick = false;

  // Float vectors with as many lanes, as far as kernels/int8 wants them.
  struct F {
    struct V {
      Wasm::V low, high;

      V operator+(V b) const { return {low + b.low, high + b.high}; }
      V operator-(V b) const { return {low - b.low, high - b.high}; }
      V operator*(V b) const { return {low * b.low, high * b.high}; }
      V operator/(V b) const { return {low / b.low, high / b.high}; }
    };
    static V load(const float* p) { return {Wasm::load(p), Wasm::load(p + 4)}; }
    static void store(float* p, V v) { Wasm::store(p, v.low), Wasm::store(p + 4, v.high); }
    static V all(float x) { return {Wasm::all(x), Wasm::all(x)}; }
    static V with_sign_of(V a, V s) { return {Wasm::with_sign_of(a.low, s.low), Wasm::with_sign_of(a.high, s.high)}; }
  };
  static F::V to_float(V v) {
    return {reinterpret_cast<Wasm::V>(wasm_f32x4_convert_i32x4(v.low)),
            reinterpret_cast<Wasm::V>(wasm_f32x4_convert_i32x4(v.high))};
  }
  // Eight floats of 16 bits: there is no instruction for them.
  static F::V load_halves(const Half* from) {
    float to[8];
    for (int i = 0; i < 8; ++i) to[i] = lite::to_float(from[i]);
    return F::load(to);
  }
  static V truncate(F::V f) { return {wasm_i32x4_trunc_sat_f32x4(f.low), wasm_i32x4_trunc_sat_f32x4(f.high)}; }
  static constexpr bool kFuses = false;
  static F::V within(F::V f, F::V low, F::V high) {  // max(NaN, low) is low
    return {Wasm::min(Wasm::max(f.low, low.low), high.low), Wasm::min(Wasm::max(f.high, low.high), high.high)};
  }

  using Bytes = v128_t;
  static constexpr int kBytes = 16;
  static Bytes load_all(const int8_t* from) { return wasm_v128_load(from); }
  static void store_all(int8_t* to, Bytes b) { wasm_v128_store(to, b); }
  static Bytes max_bytes(Bytes a, Bytes b) { return wasm_i8x16_max(a, b); }
  static Bytes min_bytes(Bytes a, Bytes b) { return wasm_i8x16_min(a, b); }
  static Bytes all_bytes(int x) { return wasm_i8x16_splat(static_cast<int8_t>(x)); }

  static V round(F::V f) {
    return {wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(reinterpret_cast<v128_t>(f.low))),
            wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(reinterpret_cast<v128_t>(f.high)))};
  }

  struct PairSum {
    v128_t high, low;

    PairSum(const int16_t* the_high, const int16_t* the_low)
        : high(wasm_v128_load32_splat(the_high)), low(wasm_v128_load32_splat(the_low)) {}
    void operator()(Bytes a, Bytes b, V* v) const {
      const v128_t first = wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      const v128_t second = wasm_i8x16_shuffle(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      v[0] = sum(first), v[1] = sum(second);
    }
    V sum(v128_t pairs) const {
      return {sum_words(wasm_i16x8_extend_low_i8x16(pairs)), sum_words(wasm_i16x8_extend_high_i8x16(pairs))};
    }
    v128_t sum_words(v128_t words) const {
      const v128_t large = wasm_i16x8_shl(words, 8);
      return wasm_i32x4_add(wasm_i32x4_dot_i16x8(large, high), wasm_i32x4_shr(wasm_i32x4_dot_i16x8(large, low), 14));
    }
  };
  static void products(Bytes a, Bytes b, int a_zero, int b_zero, V* v) {
    const v128_t moved_a = wasm_i16x8_splat(static_cast<int16_t>(a_zero));
    const v128_t moved_b = wasm_i16x8_splat(static_cast<int16_t>(b_zero));
    const auto product = [&](v128_t x, v128_t y) {
      x = wasm_i16x8_sub(x, moved_a), y = wasm_i16x8_sub(y, moved_b);
      return V{wasm_i32x4_extmul_low_i16x8(x, y), wasm_i32x4_extmul_high_i16x8(x, y)};
    };
    v[0] = product(wasm_i16x8_extend_low_i8x16(a), wasm_i16x8_extend_low_i8x16(b));
    v[1] = product(wasm_i16x8_extend_high_i8x16(a), wasm_i16x8_extend_high_i8x16(b));
  }
  static Bytes narrow(const V* v, int zero) {
    const v128_t moved = wasm_i16x8_splat(static_cast<int16_t>(zero));
    return wasm_i8x16_narrow_i16x8(wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(v[0].low, v[0].high), moved),
                                   wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(v[1].low, v[1].high), moved));
  }
  static Bytes narrow_down(V* v, int shift, int zero) {
    const uint32_t by = static_cast<uint32_t>(shift);
    for (int i = 0; i < 2; ++i) v[i] = {wasm_i32x4_shr(v[i].low, by), wasm_i32x4_shr(v[i].high, by)};
    return narrow(v, zero);
  }

  // Looked up one by one: a swizzle knows 16 numbers, so that 16 of them would take as long.
  struct Table {
    const int8_t* numbers;

    explicit Table(const int8_t* from) : numbers(from + 128) {}
    void operator()(const int8_t* x, int8_t* y) const {
      for (int i = 0; i < kBytes; ++i) y[i] = numbers[x[i]];
    }
  };
};

}  // namespace lite
