#include "kernels/kernels.h"
#include "kernels/quantized.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

// From one type to another, element by element.
template <typename Attrs>
bool check_convert(const Call<Attrs>& call, DType from, DType to) {
  return call.inputs == 1 && call.in[0].dtype == from && call.y().dtype == to && same_shape(call.in[0], call.y());
}

// round(x / scale) + zero_point, not yet within bounds. NaN stays NaN.
template <typename Attrs>
float stored_number(float x, const Attrs& attrs) {
  return std::round(x / attrs.scale) + static_cast<float>(attrs.zero_point);
}

template <typename T>
Status dequantized(const Call<dequantize_attrs>& call) {
  return unary<T, float>(call, [&](T x) { return static_cast<float>(x - call.attrs.zero_point) * call.attrs.scale; });
}

template <typename T>
Status requantized(const Call<requantize_attrs>& call) {
  const auto& attrs = call.attrs;
  const StoredAs<T> stored = stored_of<T>(attrs);
  return unary<T, T>(call,
                     [&](T x) { return stored(scale_by_multiplier(x - attrs.x_zero, attrs.multiplier, attrs.shift)); });
}

// `q` within [low, high]; NaN becomes low.
float bounded(float q, float low, float high) { return q > low ? std::min(q, high) : low; }

}  // namespace

CHECK(quantize) {
  return check_convert(call, DType::f32, DType::i8) && is_scale(call.attrs.scale) && is_int8(call.attrs.zero_point);
}
KERNEL(quantize, f32, ref) {
  return unary<float, int8_t>(
      call, [&](float x) { return static_cast<int8_t>(bounded(stored_number(x, call.attrs), kLowest, kHighest)); });
}

CHECK(quantize_16) { return check_convert(call, DType::f32, DType::i16) && is_scale(call.attrs.scale); }
KERNEL(quantize_16, f32, ref) {
  return unary<float, int16_t>(call, [&](float x) {
    return static_cast<int16_t>(bounded(std::round(x / call.attrs.scale), kLowest16, kHighest16));
  });
}

CHECK(dequantize) {
  const DType dtype = call.in[0].dtype;
  return check_convert(call, dtype, DType::f32) && is_stored_type(dtype) && is_zero_of(dtype, call.attrs.zero_point);
}
KERNEL(dequantize, i8, ref) { return dequantized<int8_t>(call); }
KERNEL(dequantize, i16, ref) { return dequantized<int16_t>(call); }

CHECK(fake_quantize) { return check_convert(call, DType::f32, DType::f32) && is_scale(call.attrs.scale); }
KERNEL(fake_quantize, f32, ref) {
  const float low = static_cast<float>(call.attrs.low), high = static_cast<float>(call.attrs.high);
  return unary<float, float>(call, [&](float x) {
    const float q = bounded(stored_number(x, call.attrs), low, high);
    return (q - static_cast<float>(call.attrs.zero_point)) * call.attrs.scale;
  });
}

CHECK(fake_quantize_dx) {
  return has_inputs(call, 2, 2) && is_scale(call.attrs.scale) && same_shape(call.in[0], call.y()) &&
         same_shape(call.in[1], call.y());
}
KERNEL(fake_quantize_dx, f32, ref) {
  const float low = static_cast<float>(call.attrs.low), high = static_cast<float>(call.attrs.high);
  return binary<float, float>(call, [&](float g, float x) {
    const float q = stored_number(x, call.attrs);
    return q >= low && q <= high ? g : 0.0f;
  });
}

CHECK(dequantize_weight) {
  const Tensor &x = call.in[0], &scale = call.in[1];
  return call.inputs == 2 && x.dtype == DType::i8 && scale.dtype == DType::f32 && call.y().dtype == DType::f32 &&
         is_axis(call.attrs.axis, x) && is_vector(scale, x.dim(call.attrs.axis)) && same_shape(x, call.y());
}
KERNEL(dequantize_weight, i8, ref) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis;
  const int64_t outer = product(x.shape, 0, axis), inner = product(x.shape, axis + 1, x.rank());
  const int8_t* from = x.i8();
  float* to = call.y().f32();
  for (int64_t i = 0; i < outer; ++i) {
    for (int k = 0; k < x.dim(axis); ++k) {
      for (int64_t j = 0; j < inner; ++j) *to++ = static_cast<float>(*from++) * call.in[1].f32()[k];
    }
  }
  return Status::kOk;
}

CHECK(requantize) {
  const auto& attrs = call.attrs;
  const DType dtype = call.in[0].dtype;
  return check_convert(call, dtype, dtype) && is_stored_type(dtype) && is_zero_of(dtype, attrs.x_zero) &&
         is_stored(attrs, dtype) && is_multiplier(attrs.multiplier, attrs.shift);
}
KERNEL(requantize, i8, ref) { return requantized<int8_t>(call); }
KERNEL(requantize, i16, ref) { return requantized<int16_t>(call); }

CHECK(quantized_lookup) {
  return has_inputs(call, 2, 2, DType::i8) && same_shape(call.in[0], call.y()) && is_vector(call.in[1], 256);
}
KERNEL(quantized_lookup, i8, ref) {
  const int8_t* table = call.in[1].i8();
  return unary<int8_t, int8_t>(call, [&](int8_t x) { return table[x - kLowest]; });
}

}  // namespace lite
