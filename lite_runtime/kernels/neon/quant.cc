#include "kernels/kernels.h"
#include "kernels/neon/fixed_point.h"
#include "kernels/quantized_elements.h"

namespace lite {
namespace {

// Eight int8 numbers as int16, without their zero point.
int16x8_t load_eight(const int8_t* from, int zero) {
  return vsubq_s16(vmovl_s8(vld1_s8(from)), vdupq_n_s16(static_cast<int16_t>(zero)));
}

// round(x / scale) + zero_point within int8; halves away from zero, NaN becomes the lowest.
class Quantize {
 public:
  Quantize(float scale, int zero_point)
      : scale_(vdupq_n_f32(scale)), zero_(vdupq_n_f32(static_cast<float>(zero_point))) {}

  int8x8_t operator()(const float* from) const { return to_int8(four(from), four(from + 4)); }

 private:
  int32x4_t four(const float* from) const {
    const float32x4_t q = vaddq_f32(vrndaq_f32(vdivq_f32(vld1q_f32(from), scale_)), zero_);
    const float32x4_t low = vdupq_n_f32(kLowest), high = vdupq_n_f32(kHighest);
    return vcvtq_s32_f32(vminq_f32(vmaxnmq_f32(q, low), high));  // maxnm(NaN, low) is low
  }

  float32x4_t scale_, zero_;
};

}  // namespace

KERNEL(quantize, f32, neon) {
  const Quantize quantize(call.attrs.scale, call.attrs.zero_point);
  const float* x = call.in[0].f32();
  int8_t* y = call.y().i8();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) vst1_s8(y + i, quantize(x + i));
    if (i == end) return;
    float last[8] = {};
    int8_t bytes[8];
    std::copy(x + i, x + end, last);
    vst1_s8(bytes, quantize(last));
    std::copy(bytes, bytes + (end - i), y + i);
  });
  return Status::kOk;
}

KERNEL(dequantize, i8, neon) {
  const float scale = call.attrs.scale;
  const int zero = call.attrs.zero_point;
  const int8_t* x = call.in[0].i8();
  float* y = call.y().f32();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      const int16x8_t moved = load_eight(x + i, zero);
      vst1q_f32(y + i, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(moved))), scale));
      vst1q_f32(y + i + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(moved))), scale));
    }
    for (; i < end; ++i) y[i] = static_cast<float>(x[i] - zero) * scale;
  });
  return Status::kOk;
}

KERNEL(quantized_add, i8, neon) {
  const auto& attrs = call.attrs;
  const Scale scale_a = Scale::of(attrs.a_multiplier, attrs.a_shift);
  const Scale scale_b = Scale::of(attrs.b_multiplier, attrs.b_shift);
  const Scale scale_y = Scale::of(attrs.y_multiplier, attrs.y_shift);
  const Bound bound(stored_of(attrs));
  const int32x4_t fine = vdupq_n_s32(attrs.left_shift);
  const auto four = [&](int16x4_t va, int16x4_t vb) {
    const int32x4_t fine_a = scale_a(vshlq_s32(vmovl_s16(va), fine));
    const int32x4_t fine_b = scale_b(vshlq_s32(vmovl_s16(vb), fine));
    return bound(scale_y(vaddq_s32(fine_a, fine_b)));
  };
  return binary_rows<8>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    const int16x8_t a = load_eight(from_a, attrs.a_zero), b = load_eight(from_b, attrs.b_zero);
    vst1_s8(to, to_int8(four(vget_low_s16(a), vget_low_s16(b)), four(vget_high_s16(a), vget_high_s16(b))));
  });
}

KERNEL(quantized_mul, i8, neon) {
  const auto& attrs = call.attrs;
  const Scale scale = Scale::of(attrs.multiplier, attrs.shift);
  const Bound bound(stored_of(attrs));
  return binary_rows<8>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    const int16x8_t a = load_eight(from_a, attrs.a_zero), b = load_eight(from_b, attrs.b_zero);
    const int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
    vst1_s8(to, to_int8(bound(scale(low)), bound(scale(vmull_high_s16(a, b)))));
  });
}

KERNEL(quantized_mean, i8, neon) {
  const auto& attrs = call.attrs;
  const Scale scale = Scale::of(attrs.multiplier, attrs.shift);
  const Bound bound(stored_of(attrs));
  return mean_columns(call, quantized_mean_i8_ref, [&](const int8_t* x, int64_t count, int64_t inner, int8_t* y) {
    int32x4_t low = vdupq_n_s32(0), high = low;
    for (int64_t m = 0; m < count; ++m) {
      const int16x8_t eight = load_eight(x + m * inner, attrs.x_zero);
      low = vaddw_s16(low, vget_low_s16(eight));
      high = vaddw_high_s16(high, eight);
    }
    vst1_s8(y, to_int8(bound(scale(low)), bound(scale(high))));
  });
}

// The table is four parts of 64 numbers; a look-up gives 0 for an index that is not in its part.
KERNEL(quantized_lookup, i8, neon) {
  int8x16x4_t parts[4];
  for (int p = 0; p < 4; ++p) parts[p] = vld1q_s8_x4(call.in[1].i8() + 64 * p);
  return unary_rows<16>(call, [&](const int8_t* x, int8_t* y) {
    uint8x16_t index = veorq_u8(vreinterpretq_u8_s8(vld1q_s8(x)), vdupq_n_u8(128));
    int8x16_t found = vdupq_n_s8(0);
    for (const int8x16x4_t& part : parts) {
      found = vorrq_s8(found, vqtbl4q_s8(part, index));
      index = vsubq_u8(index, vdupq_n_u8(64));
    }
    vst1q_s8(y, found);
  });
}

}  // namespace lite
