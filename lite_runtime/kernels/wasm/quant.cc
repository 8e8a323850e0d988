#include "kernels/kernels.h"
#include "kernels/quantized_elements.h"
#include "kernels/wasm/fixed_point.h"

namespace lite {
namespace {

// Eight int8 numbers as int16, without their zero point.
v128_t load_eight(const int8_t* from, int zero) {
  return wasm_i16x8_sub(wasm_i16x8_load8x8(from), wasm_i16x8_splat(static_cast<int16_t>(zero)));
}

// round(x / scale) + zero_point within int8; halves away from zero, NaN becomes the lowest.
class Quantize {
 public:
  Quantize(float scale, int zero_point)
      : scale_(wasm_f32x4_splat(scale)), zero_(wasm_f32x4_splat(static_cast<float>(zero_point))) {}

  void operator()(const float* from, int8_t* to) const { store_int8(to, four(from), four(from + 4)); }

 private:
  v128_t four(const float* from) const {
    const v128_t sign = wasm_f32x4_const_splat(-0.0f), x = wasm_f32x4_div(wasm_v128_load(from), scale_);
    const v128_t size = wasm_f32x4_abs(x), whole = wasm_f32x4_floor(size);
    const v128_t up = wasm_f32x4_ge(wasm_f32x4_sub(size, whole), wasm_f32x4_const_splat(0.5f));
    const v128_t rounded = wasm_f32x4_add(whole, wasm_v128_and(up, wasm_f32x4_const_splat(1.0f)));
    const v128_t q = wasm_f32x4_add(wasm_v128_bitselect(x, rounded, sign), zero_);
    const v128_t low = wasm_f32x4_const_splat(kLowest), high = wasm_f32x4_const_splat(kHighest);
    return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, q)));  // pmax(low, NaN) is low
  }

  v128_t scale_, zero_;
};

}  // namespace

KERNEL(quantize, f32, wasm) {
  const Quantize quantize(call.attrs.scale, call.attrs.zero_point);
  const float* x = call.in[0].f32();
  int8_t* y = call.y().i8();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) quantize(x + i, y + i);
    if (i == end) return;
    float last[8] = {};
    int8_t bytes[8];
    std::copy(x + i, x + end, last);
    quantize(last, bytes);
    std::copy(bytes, bytes + (end - i), y + i);
  });
  return Status::kOk;
}

KERNEL(dequantize, i8, wasm) {
  const float scale = call.attrs.scale;
  const int zero = call.attrs.zero_point;
  const int8_t* x = call.in[0].i8();
  float* y = call.y().f32();
  const int64_t n = call.y().elements();
  const auto scaled = [&](v128_t four) {
    return wasm_f32x4_mul(wasm_f32x4_convert_i32x4(four), wasm_f32x4_splat(scale));
  };
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      const v128_t moved = load_eight(x + i, zero);
      wasm_v128_store(y + i, scaled(wasm_i32x4_extend_low_i16x8(moved)));
      wasm_v128_store(y + i + 4, scaled(wasm_i32x4_extend_high_i16x8(moved)));
    }
    for (; i < end; ++i) y[i] = static_cast<float>(x[i] - zero) * scale;
  });
  return Status::kOk;
}

KERNEL(quantized_add, i8, wasm) {
  const auto& attrs = call.attrs;
  const Scale scale_a = Scale::of(attrs.a_multiplier, attrs.a_shift);
  const Scale scale_b = Scale::of(attrs.b_multiplier, attrs.b_shift);
  const Scale scale_y = Scale::of(attrs.y_multiplier, attrs.y_shift);
  const Bound bound(stored_of(attrs));
  const uint32_t fine = static_cast<uint32_t>(attrs.left_shift);
  const auto four = [&](v128_t va, v128_t vb) {
    const v128_t fine_a = scale_a(wasm_i32x4_shl(va, fine)), fine_b = scale_b(wasm_i32x4_shl(vb, fine));
    return bound(scale_y(wasm_i32x4_add(fine_a, fine_b)));
  };
  return binary_rows<8>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    const v128_t a = load_eight(from_a, attrs.a_zero), b = load_eight(from_b, attrs.b_zero);
    store_int8(to, four(wasm_i32x4_extend_low_i16x8(a), wasm_i32x4_extend_low_i16x8(b)),
               four(wasm_i32x4_extend_high_i16x8(a), wasm_i32x4_extend_high_i16x8(b)));
  });
}

KERNEL(quantized_mul, i8, wasm) {
  const auto& attrs = call.attrs;
  const Scale scale = Scale::of(attrs.multiplier, attrs.shift);
  const Bound bound(stored_of(attrs));
  return binary_rows<8>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    const v128_t a = load_eight(from_a, attrs.a_zero), b = load_eight(from_b, attrs.b_zero);
    store_int8(to, bound(scale(wasm_i32x4_extmul_low_i16x8(a, b))), bound(scale(wasm_i32x4_extmul_high_i16x8(a, b))));
  });
}

KERNEL(quantized_mean, i8, wasm) {
  const auto& attrs = call.attrs;
  const Scale scale = Scale::of(attrs.multiplier, attrs.shift);
  const Bound bound(stored_of(attrs));
  return mean_columns(call, quantized_mean_i8_ref, [&](const int8_t* x, int64_t count, int64_t inner, int8_t* y) {
    v128_t low = wasm_i32x4_const_splat(0), high = low;
    for (int64_t m = 0; m < count; ++m) {
      const v128_t eight = load_eight(x + m * inner, attrs.x_zero);
      low = wasm_i32x4_add(low, wasm_i32x4_extend_low_i16x8(eight));
      high = wasm_i32x4_add(high, wasm_i32x4_extend_high_i16x8(eight));
    }
    store_int8(y, bound(scale(low)), bound(scale(high)));
  });
}

}  // namespace lite
