#include <algorithm>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"
#include "kernels/windows.h"

namespace lite {
namespace {

template <typename Attrs>
bool max_fits(const Tensor& image, const Tensor& grid, const Attrs& attrs) {
  return attrs.size.size == 2 && windows_fit(image, attrs.size[0], attrs.size[1], grid, attrs) &&
         image.dim(3) == grid.dim(3);
}
template <typename Attrs>
bool average_fits(const Tensor& image, const Tensor& grid, const Attrs& attrs) {
  return attrs.size.size == 2 && windows_fit(image, attrs.size[0], attrs.size[1], grid, attrs, kNoDilation) &&
         image.dim(3) == grid.dim(3);
}

int64_t offset(const Tensor& t, int n, int i, int j, int c) {
  return ((int64_t{n} * t.dim(1) + i) * t.dim(2) + j) * t.dim(3) + c;
}

// body(n, p, q, c) for every element of a grid.
template <typename Body>
void for_elements(const Tensor& grid, Body body) {
  for (int n = 0; n < grid.dim(0); ++n) {
    for (int p = 0; p < grid.dim(1); ++p) {
      for (int q = 0; q < grid.dim(2); ++q) {
        for (int c = 0; c < grid.dim(3); ++c) body(n, p, q, c);
      }
    }
  }
}

// body(offset in the image) for every place of window p, q that lies inside it.
template <typename Body>
void for_places(const Windows& at, const Tensor& image, int n, int p, int q, int c, Body body) {
  for (int i = 0; i < at.h.size; ++i) {
    for (int j = 0; j < at.w.size; ++j) {
      const int row = at.h.position(p, i), column = at.w.position(q, j);
      if (at.h.inside(row) && at.w.inside(column)) body(offset(image, n, row, column, c));
    }
  }
}

// The offset of the first maximum of a window, or -1 for a window beyond the image.
int64_t argmax(const Windows& at, const Tensor& image, int n, int p, int q, int c) {
  int64_t best = -1;
  const float* x = image.f32();
  for_places(at, image, n, p, q, c, [&](int64_t i) {
    if (best < 0 || x[i] > x[best]) best = i;
  });
  return best;
}

// How many places the mean of window p, q is over.
template <typename Attrs>
int divisor(const Windows& at, const Attrs& attrs, int p, int q) {
  if (attrs.count_include_pad) return at.h.size * at.w.size;
  const auto inside = [](const Axis& axis, int window) {
    const int start = axis.position(window, 0);
    return std::max(axis.behind_inside(start) - axis.first_inside(start), 0);
  };
  return std::max(inside(at.h, p) * inside(at.w, q), 1);
}

template <typename T>
Status max_pool(const Call<max_pool2d_attrs>& call) {
  const Tensor &x = call.in[0], &y = call.y();
  const Windows windows = windows_of(x, call.attrs.size[0], call.attrs.size[1], y, call.attrs);
  constexpr T kLowest =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  for_elements(y, [&](int n, int p, int q, int c) {
    T best = kLowest;
    for_places(windows, x, n, p, q, c, [&](int64_t i) { best = std::max(best, x.as<T>()[i]); });
    y.as<T>()[offset(y, n, p, q, c)] = best;
  });
  return Status::kOk;
}

}  // namespace

CHECK(max_pool2d) { return has_inputs(call, 1, 1, call.in[0].dtype) && max_fits(call.in[0], call.y(), call.attrs); }
KERNEL(max_pool2d, f32, ref) { return max_pool<float>(call); }
KERNEL(max_pool2d, i8, ref) { return max_pool<int8_t>(call); }
KERNEL(max_pool2d, i16, ref) { return max_pool<int16_t>(call); }

CHECK(max_pool2d_dx) {
  return has_inputs(call, 2, 2) && max_fits(call.in[1], call.in[0], call.attrs) && call.y().shape == call.in[1].shape;
}
KERNEL(max_pool2d_dx, f32, ref) {
  const Tensor &g = call.in[0], &x = call.in[1], &y = call.y();
  const Windows windows = windows_of(x, call.attrs.size[0], call.attrs.size[1], g, call.attrs);
  std::fill_n(y.f32(), y.elements(), 0.0f);
  for_elements(g, [&](int n, int p, int q, int c) {
    const int64_t chosen = argmax(windows, x, n, p, q, c);
    if (chosen >= 0) y.f32()[chosen] += g.f32()[offset(g, n, p, q, c)];
  });
  return Status::kOk;
}

CHECK(max_pool2d_at) {
  return has_inputs(call, 2, 2) && max_fits(call.in[1], call.y(), call.attrs) && call.in[0].shape == call.in[1].shape;
}
KERNEL(max_pool2d_at, f32, ref) {
  const Tensor &v = call.in[0], &x = call.in[1], &y = call.y();
  const Windows windows = windows_of(x, call.attrs.size[0], call.attrs.size[1], y, call.attrs);
  for_elements(y, [&](int n, int p, int q, int c) {
    const int64_t chosen = argmax(windows, x, n, p, q, c);
    y.f32()[offset(y, n, p, q, c)] = chosen >= 0 ? v.f32()[chosen] : 0.0f;
  });
  return Status::kOk;
}

CHECK(avg_pool2d) { return has_inputs(call, 1, 1) && average_fits(call.in[0], call.y(), call.attrs); }
KERNEL(avg_pool2d, f32, ref) {
  const Tensor &x = call.in[0], &y = call.y();
  const Windows windows = windows_of(x, call.attrs.size[0], call.attrs.size[1], y, call.attrs, kNoDilation);
  for_elements(y, [&](int n, int p, int q, int c) {
    float sum = 0;
    for_places(windows, x, n, p, q, c, [&](int64_t i) { sum += x.f32()[i]; });
    y.f32()[offset(y, n, p, q, c)] = sum / divisor(windows, call.attrs, p, q);
  });
  return Status::kOk;
}

CHECK(avg_pool2d_dx) {
  const Ints& image = call.attrs.image;
  return has_inputs(call, 1, 1) && average_fits(call.y(), call.in[0], call.attrs) && image.size == 2 &&
         image[0] == call.y().dim(1) && image[1] == call.y().dim(2);
}
KERNEL(avg_pool2d_dx, f32, ref) {
  const Tensor &g = call.in[0], &y = call.y();
  const Windows windows = windows_of(y, call.attrs.size[0], call.attrs.size[1], g, call.attrs, kNoDilation);
  std::fill_n(y.f32(), y.elements(), 0.0f);
  for_elements(g, [&](int n, int p, int q, int c) {
    const float share = g.f32()[offset(g, n, p, q, c)] / divisor(windows, call.attrs, p, q);
    for_places(windows, y, n, p, q, c, [&](int64_t i) { y.f32()[i] += share; });
  });
  return Status::kOk;
}

}  // namespace lite
