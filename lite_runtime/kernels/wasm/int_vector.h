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
    static V abs(V a) { return {Wasm::abs(a.low), Wasm::abs(a.high)}; }
    static V floor(V a) { return {Wasm::floor(a.low), Wasm::floor(a.high)}; }
    static V with_sign_of(V a, V s) { return {Wasm::with_sign_of(a.low, s.low), Wasm::with_sign_of(a.high, s.high)}; }
    static V not_below(V a, V b) { return {Wasm::not_below(a.low, b.low), Wasm::not_below(a.high, b.high)}; }
    static V both(V a, V b) { return {Wasm::both(a.low, b.low), Wasm::both(a.high, b.high)}; }
  };
  static F::V to_float(V v) {
    return {reinterpret_cast<Wasm::V>(wasm_f32x4_convert_i32x4(v.low)),
            reinterpret_cast<Wasm::V>(wasm_f32x4_convert_i32x4(v.high))};
  }
  // Eight floats of 16 bits: there is no instruction for them.
  static F::V load_halves(const Half* from) {
    float to[8];
    for (int i = 0; i < 8; ++i) to[i] = to_float(from[i]);
    return F::load(to);
  }
  static V truncate(F::V f) { return {wasm_i32x4_trunc_sat_f32x4(f.low), wasm_i32x4_trunc_sat_f32x4(f.high)}; }
  static V to_int8_range(F::V f) {
    const Wasm::V low = Wasm::all(kLowest), high = Wasm::all(kHighest);
    // max(NaN, low) is low
    return truncate({Wasm::min(Wasm::max(f.low, low), high), Wasm::min(Wasm::max(f.high, low), high)});
  }

  using Bytes = v128_t;
  static constexpr int kBytes = 16;
  static Bytes load_all(const int8_t* from) { return wasm_v128_load(from); }
  static void store_all(int8_t* to, Bytes b) { wasm_v128_store(to, b); }
  static Bytes max_bytes(Bytes a, Bytes b) { return wasm_i8x16_max(a, b); }

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
