#include "kernels/activation.h"
#include "kernels/kernels.h"
#include "kernels/layer_inputs.h"
#include "kernels/ref/checks.h"
#include "kernels/windows.h"

namespace lite {
namespace {

// Element [a,b,c,d] of a tensor of rank 4.
float& at(const Tensor& t, int a, int b, int c, int d) {
  return t.f32()[((int64_t{a} * t.dim(1) + b) * t.dim(2) + c) * t.dim(3) + d];
}

// Image [n,h,w,c], weight [k,r,s,c/groups] and grid [n,p,q,k] of a convolution in `groups` groups.
template <typename Attrs>
bool fits(const Tensor& image, const Tensor& weight, const Tensor& grid, const Attrs& attrs) {
  if (weight.rank() != 4 || !windows_fit(image, weight.dim(1), weight.dim(2), grid, attrs)) return false;
  const int groups = attrs.groups;
  return groups >= 1 && image.dim(3) % groups == 0 && image.dim(3) / groups == weight.dim(3) &&
         grid.dim(3) == weight.dim(0) && weight.dim(0) % groups == 0;
}

// Image [n,h,w,c], weight [r,s,c] and grid [n,p,q,c] of a depthwise convolution.
template <typename Attrs>
bool depthwise_fits(const Tensor& image, const Tensor& weight, const Tensor& grid, const Attrs& attrs) {
  return weight.rank() == 3 && windows_fit(image, weight.dim(0), weight.dim(1), grid, attrs) &&
         image.dim(3) == weight.dim(2) && grid.dim(3) == weight.dim(2);
}

template <typename Attrs>
bool size_is(const Attrs& attrs, int a, int b) {
  return attrs.size.size == 2 && attrs.size[0] == a && attrs.size[1] == b;
}

// body(i, j, row, column) for every place of window p, q that lies inside the image.
template <typename Body>
void for_places(const Windows& at, int p, int q, Body body) {
  for (int i = 0; i < at.h.size; ++i) {
    for (int j = 0; j < at.w.size; ++j) {
      const int row = at.h.position(p, i), column = at.w.position(q, j);
      if (at.h.inside(row) && at.w.inside(column)) body(i, j, row, column);
    }
  }
}

// body(i, j, p, q) for every place of every window p, q that lies on row, column.
template <typename Body>
void for_windows(const Windows& at, int row, int column, Body body) {
  for (int i = 0; i < at.h.size; ++i) {
    for (int j = 0; j < at.w.size; ++j) {
      const int p = at.h.window_at(row, i), q = at.w.window_at(column, j);
      if (p >= 0 && q >= 0) body(i, j, p, q);
    }
  }
}

// body(n, row, column, channel) for every element of a tensor of rank 4.
template <typename Body>
void for_elements(const Tensor& t, Body body) {
  for (int n = 0; n < t.dim(0); ++n) {
    for (int i = 0; i < t.dim(1); ++i) {
      for (int j = 0; j < t.dim(2); ++j) {
        for (int c = 0; c < t.dim(3); ++c) body(n, i, j, c);
      }
    }
  }
}

template <typename Attrs>
bool conv_fits(const Call<Attrs>& call) {
  if (!has_inputs(call, kLeastInputs<Attrs>, kLeastInputs<Attrs> + 1)) return false;
  const LayerInputs in = inputs_of(call);
  return fits(in.x, in.w, call.y(), call.attrs) && in.ends_fit(call.y(), call.y().dim(3));
}

// y = activation(the cross-correlation of x with w, + bias + added)
template <typename Attrs>
Status conv(const Call<Attrs>& call) {
  const LayerInputs in = inputs_of(call);
  const Tensor &x = in.x, &w = in.w, &y = call.y();
  const Windows windows = windows_of(x, w.dim(1), w.dim(2), y, call.attrs);
  const int channels = w.dim(3), k_group = w.dim(0) / call.attrs.groups;
  for_elements(y, [&](int n, int p, int q, int k) {
    const int c0 = k / k_group * channels;
    float sum = in.bias != nullptr ? in.bias->f32()[k] : 0;
    for_places(windows, p, q, [&](int i, int j, int row, int column) {
      for (int c = 0; c < channels; ++c) sum += at(x, n, row, column, c0 + c) * at(w, k, i, j, c);
    });
    if (in.added != nullptr) sum += at(*in.added, n, p, q, k);
    at(y, n, p, q, k) = activate(call.attrs.activation, sum);
  });
  return Status::kOk;
}

}  // namespace

CHECK(conv2d) { return conv_fits(call); }
KERNEL(conv2d, f32, ref) { return conv(call); }

CHECK(conv2d_add) { return conv_fits(call); }
KERNEL(conv2d_add, f32, ref) { return conv(call); }

CHECK(conv2d_dx) {
  return has_inputs(call, 2, 2) && fits(call.y(), call.in[1], call.in[0], call.attrs) &&
         size_is(call.attrs, call.y().dim(1), call.y().dim(2));
}
KERNEL(conv2d_dx, f32, ref) {
  const Tensor &g = call.in[0], &w = call.in[1], &y = call.y();
  const Windows windows = windows_of(y, w.dim(1), w.dim(2), g, call.attrs);
  const int channels = w.dim(3), k_group = w.dim(0) / call.attrs.groups;
  for_elements(y, [&](int n, int row, int column, int c) {
    const int k0 = c / channels * k_group;
    float sum = 0;
    for_windows(windows, row, column, [&](int i, int j, int p, int q) {
      for (int k = k0; k < k0 + k_group; ++k) sum += at(g, n, p, q, k) * at(w, k, i, j, c % channels);
    });
    at(y, n, row, column, c) = sum;
  });
  return Status::kOk;
}

CHECK(conv2d_dw) {
  return has_inputs(call, 2, 2) && fits(call.in[0], call.y(), call.in[1], call.attrs) &&
         size_is(call.attrs, call.y().dim(1), call.y().dim(2));
}
KERNEL(conv2d_dw, f32, ref) {
  const Tensor &x = call.in[0], &g = call.in[1], &y = call.y();
  const Windows windows = windows_of(x, y.dim(1), y.dim(2), g, call.attrs);
  const int channels = y.dim(3), k_group = y.dim(0) / call.attrs.groups;
  for_elements(y, [&](int k, int i, int j, int c) {
    const int channel = k / k_group * channels + c;
    float sum = 0;
    for (int n = 0; n < g.dim(0); ++n) {
      for (int p = 0; p < g.dim(1); ++p) {
        for (int q = 0; q < g.dim(2); ++q) {
          const int row = windows.h.position(p, i), column = windows.w.position(q, j);
          if (!windows.h.inside(row) || !windows.w.inside(column)) continue;
          sum += at(x, n, row, column, channel) * at(g, n, p, q, k);
        }
      }
    }
    at(y, k, i, j, c) = sum;
  });
  return Status::kOk;
}

CHECK(depthwise_conv2d) {
  if (!has_inputs(call, 2, 3) || !depthwise_fits(call.in[0], call.in[1], call.y(), call.attrs)) return false;
  const Tensor* b = call.optional(2);
  return b == nullptr || is_vector(*b, call.y().dim(3));
}
KERNEL(depthwise_conv2d, f32, ref) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Tensor* b = call.optional(2);
  const Windows windows = windows_of(x, w.dim(0), w.dim(1), y, call.attrs);
  for_elements(y, [&](int n, int p, int q, int c) {
    float sum = b != nullptr ? b->f32()[c] : 0;
    for_places(windows, p, q, [&](int i, int j, int row, int column) {
      sum += at(x, n, row, column, c) * w.f32()[(int64_t{i} * w.dim(1) + j) * w.dim(2) + c];
    });
    at(y, n, p, q, c) = activate(call.attrs.activation, sum);
  });
  return Status::kOk;
}

CHECK(depthwise_conv2d_dx) {
  return has_inputs(call, 2, 2) && depthwise_fits(call.y(), call.in[1], call.in[0], call.attrs) &&
         size_is(call.attrs, call.y().dim(1), call.y().dim(2));
}
KERNEL(depthwise_conv2d_dx, f32, ref) {
  const Tensor &g = call.in[0], &w = call.in[1], &y = call.y();
  const Windows windows = windows_of(y, w.dim(0), w.dim(1), g, call.attrs);
  for_elements(y, [&](int n, int row, int column, int c) {
    float sum = 0;
    for_windows(windows, row, column, [&](int i, int j, int p, int q) {
      sum += at(g, n, p, q, c) * w.f32()[(int64_t{i} * w.dim(1) + j) * w.dim(2) + c];
    });
    at(y, n, row, column, c) = sum;
  });
  return Status::kOk;
}

CHECK(depthwise_conv2d_dw) {
  return has_inputs(call, 2, 2) && depthwise_fits(call.in[0], call.y(), call.in[1], call.attrs) &&
         size_is(call.attrs, call.y().dim(0), call.y().dim(1));
}
KERNEL(depthwise_conv2d_dw, f32, ref) {
  const Tensor &x = call.in[0], &g = call.in[1], &y = call.y();
  const Windows windows = windows_of(x, y.dim(0), y.dim(1), g, call.attrs);
  for (int64_t i = 0; i < y.elements(); ++i) y.f32()[i] = 0;
  for_elements(g, [&](int n, int p, int q, int c) {
    for_places(windows, p, q, [&](int i, int j, int row, int column) {
      y.f32()[(int64_t{i} * y.dim(1) + j) * y.dim(2) + c] += at(x, n, row, column, c) * at(g, n, p, q, c);
    });
  });
  return Status::kOk;
}

}  // namespace lite
