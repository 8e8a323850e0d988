#include "kernels/kernels.h"
#include "kernels/neon/fixed_point.h"

namespace lite {
namespace {

constexpr int64_t kGrain = 1 << 14;

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
  parallel_for(call.context.pool, call.y().elements(), kGrain, [&](int64_t begin, int64_t end) {
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
  parallel_for(call.context.pool, call.y().elements(), kGrain, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      const int16x8_t moved = vsubq_s16(vmovl_s8(vld1_s8(x + i)), vdupq_n_s16(static_cast<int16_t>(zero)));
      vst1q_f32(y + i, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(moved))), scale));
      vst1q_f32(y + i + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(moved))), scale));
    }
    for (; i < end; ++i) y[i] = static_cast<float>(x[i] - zero) * scale;
  });
  return Status::kOk;
}

KERNEL(quantized_add, i8, neon) {
  const auto& attrs = call.attrs;
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  if (a.shape != y.shape || b.shape != y.shape) return quantized_add_i8_ref(call);
  const Scale scale_a = Scale::of(attrs.a_multiplier, attrs.a_shift);
  const Scale scale_b = Scale::of(attrs.b_multiplier, attrs.b_shift);
  const Scale scale_y = Scale::of(attrs.y_multiplier, attrs.y_shift);
  const Bound bound(stored_of(attrs));
  const int16x8_t zero_a = vdupq_n_s16(static_cast<int16_t>(attrs.a_zero));
  const int16x8_t zero_b = vdupq_n_s16(static_cast<int16_t>(attrs.b_zero));
  const int32x4_t fine = vdupq_n_s32(attrs.left_shift);
  const auto four = [&](int16x4_t va, int16x4_t vb) {
    const int32x4_t fine_a = scale_a(vshlq_s32(vmovl_s16(va), fine));
    const int32x4_t fine_b = scale_b(vshlq_s32(vmovl_s16(vb), fine));
    return bound(scale_y(vaddq_s32(fine_a, fine_b)));
  };
  const auto eight = [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
    const int16x8_t va = vsubq_s16(vmovl_s8(vld1_s8(from_a)), zero_a);
    const int16x8_t vb = vsubq_s16(vmovl_s8(vld1_s8(from_b)), zero_b);
    vst1_s8(to, to_int8(four(vget_low_s16(va), vget_low_s16(vb)), four(vget_high_s16(va), vget_high_s16(vb))));
  };
  parallel_for(call.context.pool, y.elements(), kGrain, [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) eight(a.i8() + i, b.i8() + i, y.i8() + i);
    if (i == end) return;
    int8_t last[3][8] = {};
    std::copy(a.i8() + i, a.i8() + end, last[0]);
    std::copy(b.i8() + i, b.i8() + end, last[1]);
    eight(last[0], last[1], last[2]);
    std::copy(last[2], last[2] + (end - i), y.i8() + i);
  });
  return Status::kOk;
}

}  // namespace lite
