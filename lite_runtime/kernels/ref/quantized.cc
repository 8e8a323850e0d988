#include "kernels/quantized.h"

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/loops.h"
#include "kernels/windows.h"

namespace lite {
namespace {

// Whether the inputs are as many as a layer's.
template <typename Attrs>
bool is_given(const Call<Attrs>& call) {
  return call.inputs == 4 || call.inputs == 5;
}

// Inputs x, w, bias, multiplier and perhaps shift of a layer with `channels` results, and its attributes.
template <typename Attrs>
bool is_layer(const Call<Attrs>& call, int channels) {
  const DType dtype = call.in[0].dtype;
  if (!is_stored_type(dtype) || call.in[1].dtype != DType::i8) return false;
  const Tensor* shift = call.optional(4);
  if (shift != nullptr && (shift->dtype != DType::i32 || !is_vector(*shift, channels))) return false;
  const DType multiplier = shift != nullptr ? DType::i32 : DType::f16;
  const DType bias = dtype == DType::i8 ? DType::i32 : DType::i64;
  if (call.in[2].dtype != bias || call.in[3].dtype != multiplier) return false;
  if (!is_vector(call.in[2], channels) || !is_vector(call.in[3], channels)) return false;
  if (dtype == DType::i16 && call.in[1].elements() > channels * kMostTaps16) return false;
  return call.y().dtype == dtype && is_zero_of(dtype, call.attrs.x_zero) && is_stored(call.attrs, dtype);
}

// The sum over the window at p, q of image n of (x[channel + c] - zero) * w(i, j)[c], c < channels.
template <typename T, typename Weight>
int64_t window_sum(const Windows& at, const Tensor& x, int zero, int n, int p, int q, int channel, int channels,
                   Weight w) {
  int64_t sum = 0;
  for (int i = 0; i < at.h.size; ++i) {
    for (int j = 0; j < at.w.size; ++j) {
      const int row = at.h.position(p, i), column = at.w.position(q, j);
      if (!at.h.inside(row) || !at.w.inside(column)) continue;
      const T* px = x.as<T>() + ((int64_t{n} * x.dim(1) + row) * x.dim(2) + column) * x.dim(3) + channel;
      const int8_t* pw = w(i, j);
      for (int c = 0; c < channels; ++c) sum += (px[c] - zero) * pw[c];
    }
  }
  return sum;
}

// y[n,p,q,k] = value(n, p, q, k)
template <typename T, typename Value>
void for_image(const Tensor& y, Value value) {
  T* to = y.as<T>();
  for (int n = 0; n < y.dim(0); ++n) {
    for (int p = 0; p < y.dim(1); ++p) {
      for (int q = 0; q < y.dim(2); ++q) {
        for (int k = 0; k < y.dim(3); ++k) *to++ = value(n, p, q, k);
      }
    }
  }
}

template <typename T, typename Bias>
Status conv(const Call<quantized_conv2d_attrs>& call, const Bias& channels) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Windows windows = windows_of(x, w.dim(1), w.dim(2), y, call.attrs);
  const StoredAs<T> stored = stored_of<T>(call.attrs);
  const int c = w.dim(3), k_group = w.dim(0) / call.attrs.groups;
  if (!channels.valid(w.dim(0))) return Status::kBadArgument;
  for_image<T>(y, [&](int n, int p, int q, int k) {
    const auto weight = [&](int i, int j) { return w.i8() + ((int64_t{k} * w.dim(1) + i) * w.dim(2) + j) * c; };
    const int64_t sum = window_sum<T>(windows, x, call.attrs.x_zero, n, p, q, k / k_group * c, c, weight);
    return channels.finish(sum, k, stored);
  });
  return Status::kOk;
}

template <typename T, typename Bias>
Status depthwise(const Call<quantized_depthwise_conv2d_attrs>& call, const Bias& channels) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Windows windows = windows_of(x, w.dim(0), w.dim(1), y, call.attrs);
  const StoredAs<T> stored = stored_of<T>(call.attrs);
  if (!channels.valid(w.dim(2))) return Status::kBadArgument;
  for_image<T>(y, [&](int n, int p, int q, int k) {
    const auto weight = [&](int i, int j) { return w.i8() + (int64_t{i} * w.dim(1) + j) * w.dim(2) + k; };
    return channels.finish(window_sum<T>(windows, x, call.attrs.x_zero, n, p, q, k, 1, weight), k, stored);
  });
  return Status::kOk;
}

template <typename T, typename Bias>
Status linear(const Call<quantized_linear_attrs>& call, const Bias& channels) {
  const Tensor &x = call.in[0], &w = call.in[1];
  const StoredAs<T> stored = stored_of<T>(call.attrs);
  const int64_t rows = rows_of(x);
  T* to = call.y().as<T>();
  if (!channels.valid(w.dim(0))) return Status::kBadArgument;
  for (int64_t m = 0; m < rows; ++m) {
    for (int k = 0; k < w.dim(0); ++k) {
      int64_t sum = 0;
      for (int c = 0; c < w.dim(1); ++c) {
        sum += (x.as<T>()[m * w.dim(1) + c] - call.attrs.x_zero) * w.i8()[int64_t{k} * w.dim(1) + c];
      }
      *to++ = channels.finish(sum, k, stored);
    }
  }
  return Status::kOk;
}

template <typename T>
Status add(const Call<quantized_add_attrs>& call) {
  const auto& attrs = call.attrs;
  const StoredAs<T> stored = stored_of<T>(attrs);
  const int unit = 1 << attrs.left_shift;
  return binary<T, T>(call, [&](T a, T b) {
    const int32_t fine_a = scale_by_multiplier((a - attrs.a_zero) * unit, attrs.a_multiplier, attrs.a_shift);
    const int32_t fine_b = scale_by_multiplier((b - attrs.b_zero) * unit, attrs.b_multiplier, attrs.b_shift);
    return stored(scale_by_multiplier(wrap32(int64_t{fine_a} + fine_b), attrs.y_multiplier, attrs.y_shift));
  });
}

template <typename T>
Status mul(const Call<quantized_mul_attrs>& call) {
  const auto& attrs = call.attrs;
  const StoredAs<T> stored = stored_of<T>(attrs);
  return binary<T, T>(call, [&](T a, T b) {
    return stored(scale_by_multiplier((a - attrs.a_zero) * (b - attrs.b_zero), attrs.multiplier, attrs.shift));
  });
}

template <typename T>
Status mean(const Call<quantized_mean_attrs>& call) {
  const auto& attrs = call.attrs;
  const Tensor& x = call.in[0];
  const StoredAs<T> stored = stored_of<T>(attrs);
  const int first = attrs.axes[0], behind = first + attrs.axes.size;
  const int64_t outer = product(x.shape, 0, first), count = product(x.shape, first, behind);
  const int64_t inner = product(x.shape, behind, x.rank());
  T* to = call.y().as<T>();
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t j = 0; j < inner; ++j) {
      int64_t sum = 0;
      for (int64_t m = 0; m < count; ++m) sum += x.as<T>()[(i * count + m) * inner + j] - attrs.x_zero;
      *to++ = stored(scale_by_multiplier(wrap32(sum), attrs.multiplier, attrs.shift));
    }
  }
  return Status::kOk;
}

template <typename T>
Status average(const Call<quantized_avg_pool2d_attrs>& call) {
  const auto& attrs = call.attrs;
  const Tensor &x = call.in[0], &y = call.y();
  const Windows at = windows_of(x, attrs.size[0], attrs.size[1], y, attrs, kNoDilation);
  const StoredAs<T> stored = {0, attrs.low, attrs.high};
  const int8_t one = 1;
  for_image<T>(y, [&](int n, int p, int q, int k) {
    const int64_t rows = at.h.behind_inside(at.h.position(p, 0)) - at.h.first_inside(at.h.position(p, 0));
    const int64_t columns = at.w.behind_inside(at.w.position(q, 0)) - at.w.first_inside(at.w.position(q, 0));
    const int64_t count = std::max<int64_t>(std::max<int64_t>(rows, 0) * std::max<int64_t>(columns, 0), 1);
    const int64_t sum = window_sum<T>(at, x, 0, n, p, q, k, 1, [&](int, int) { return &one; });
    const int64_t mean = (std::abs(sum) + count / 2) / count;
    return stored(sum < 0 ? -mean : mean);
  });
  return Status::kOk;
}

}  // namespace

CHECK(quantized_conv2d) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const int groups = call.attrs.groups;
  return is_given(call) && w.rank() == 4 && windows_fit(x, w.dim(1), w.dim(2), y, call.attrs) &&
         is_layer(call, w.dim(0)) && groups >= 1 && x.dim(3) % groups == 0 && x.dim(3) / groups == w.dim(3) &&
         y.dim(3) == w.dim(0) && w.dim(0) % groups == 0;
}
KERNEL(quantized_conv2d, i8, ref) { return conv<int8_t>(call, channels_of(call)); }
KERNEL(quantized_conv2d, i16, ref) { return conv<int16_t>(call, channels16_of(call)); }

CHECK(quantized_depthwise_conv2d) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  return is_given(call) && w.rank() == 3 && windows_fit(x, w.dim(0), w.dim(1), y, call.attrs) &&
         is_layer(call, w.dim(2)) && x.dim(3) == w.dim(2) && y.dim(3) == w.dim(2);
}
KERNEL(quantized_depthwise_conv2d, i8, ref) { return depthwise<int8_t>(call, channels_of(call)); }
KERNEL(quantized_depthwise_conv2d, i16, ref) { return depthwise<int16_t>(call, channels16_of(call)); }

CHECK(quantized_linear) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  if (!is_given(call) || x.rank() < 1 || y.rank() != x.rank() || w.rank() != 2) return false;
  for (int i = 0; i + 1 < x.rank(); ++i) {
    if (x.dim(i) != y.dim(i)) return false;
  }
  return x.dim(-1) == w.dim(1) && y.dim(-1) == w.dim(0) && is_layer(call, w.dim(0));
}
KERNEL(quantized_linear, i8, ref) { return linear<int8_t>(call, channels_of(call)); }
KERNEL(quantized_linear, i16, ref) { return linear<int16_t>(call, channels16_of(call)); }

CHECK(quantized_add) {
  const auto& attrs = call.attrs;
  const DType dtype = call.in[0].dtype;
  return check_binary(call) && is_stored_type(dtype) && call.y().dtype == dtype && is_zero_of(dtype, attrs.a_zero) &&
         is_zero_of(dtype, attrs.b_zero) && is_stored(attrs, dtype) && attrs.left_shift >= 0 &&
         attrs.left_shift <= (dtype == DType::i8 ? kMostLeftShift : kMostLeftShift16) &&
         is_multiplier(attrs.a_multiplier, attrs.a_shift) && is_multiplier(attrs.b_multiplier, attrs.b_shift) &&
         is_multiplier(attrs.y_multiplier, attrs.y_shift);
}
KERNEL(quantized_add, i8, ref) { return add<int8_t>(call); }
KERNEL(quantized_add, i16, ref) { return add<int16_t>(call); }

CHECK(quantized_mul) {
  const auto& attrs = call.attrs;
  const DType dtype = call.in[0].dtype;
  return check_binary(call) && is_stored_type(dtype) && call.y().dtype == dtype && is_zero_of(dtype, attrs.a_zero) &&
         is_zero_of(dtype, attrs.b_zero) && is_stored(attrs, dtype) && is_multiplier(attrs.multiplier, attrs.shift);
}
KERNEL(quantized_mul, i8, ref) { return mul<int8_t>(call); }
KERNEL(quantized_mul, i16, ref) { return mul<int16_t>(call); }

CHECK(quantized_mean) {
  const auto& attrs = call.attrs;
  bool reduced[kMaxRank] = {};
  for (int i = 1; i < attrs.axes.size; ++i) {
    if (int64_t{attrs.axes[i]} != int64_t{attrs.axes[i - 1]} + 1) return false;
  }
  const DType dtype = call.in[0].dtype;
  return has_inputs(call, 1, 1, dtype) && is_stored_type(dtype) && attrs.axes.size > 0 &&
         reduces_to(call.in[0], attrs.axes, attrs.keep_dims != 0, call.y(), reduced) &&
         is_zero_of(dtype, attrs.x_zero) && is_stored(attrs, dtype) && is_multiplier(attrs.multiplier, attrs.shift);
}
KERNEL(quantized_mean, i8, ref) { return mean<int8_t>(call); }
KERNEL(quantized_mean, i16, ref) { return mean<int16_t>(call); }

CHECK(quantized_avg_pool2d) {
  const auto& attrs = call.attrs;
  const Tensor &x = call.in[0], &y = call.y();
  return has_inputs(call, 1, 1, x.dtype) && is_stored_type(x.dtype) && attrs.size.size == 2 &&
         windows_fit(x, attrs.size[0], attrs.size[1], y, attrs, kNoDilation) && x.dim(3) == y.dim(3) &&
         are_bounds(x.dtype, attrs.low, attrs.high);
}
KERNEL(quantized_avg_pool2d, i8, ref) { return average<int8_t>(call); }
KERNEL(quantized_avg_pool2d, i16, ref) { return average<int16_t>(call); }

}  // namespace lite
