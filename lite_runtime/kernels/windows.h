#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "core/attrs.h"
#include "core/tensor.h"

// Sliding windows over images [n,h,w,c], which convolution and pooling share.

namespace lite {

// One axis of the image: `count` windows of `size` places each, on `length` positions.
struct Axis {
  int length, size, count, stride, dilation, pad;

  // Where place `place` of window `window` lies; outside of [0, length) it sees padding.
  int position(int window, int place) const { return window * stride + place * dilation - pad; }
  bool inside(int position) const { return 0 <= position && position < length; }

  // The window whose place `place` lies on `position`, or a number below 0.
  int window_at(int position, int place) const {
    const int at = position + pad - place * dilation;
    if (stride == 1) return at < count ? at : -1;  // below 0 it is none as well
    return at >= 0 && at % stride == 0 && at / stride < count ? at / stride : -1;
  }

  // The first place of a window that starts at `start` (without padding: position(window, 0)) that lies inside the
  // image, and the first one behind the image.
  int first_inside(int start) const { return start >= 0 ? 0 : (-start + dilation - 1) / dilation; }
  int behind_inside(int start) const {
    const int fit = start >= length ? 0 : (length - start + dilation - 1) / dilation;
    return fit < size ? fit : size;
  }

  // Whether the count is the right one, and no position overflows.
  bool fits(int pad_end) const {
    if (size < 1 || stride < 1 || dilation < 1 || pad < 0 || pad_end < 0) return false;
    const int64_t padded = int64_t{length} + pad + pad_end;
    const int64_t reach = int64_t{dilation} * (size - 1) + 1;
    return padded < (1 << 30) && stride < (1 << 30) && dilation < (1 << 30) && reach <= padded &&
           count == (padded - reach) / stride + 1;
  }
};

// Along one axis, the places that windows have on the positions `phase`, `phase` + stride, ...: the same ones on each,
// `step` apart, here in falling order, so that the windows come in rising order.
struct Places {
  int last = 0, step, count = 0;
  int window = 0;   // the window that has place `last` on position `phase`; one more for each stride
  int windows = 0;  // from the window of one place to that of the next

  Places(const Axis& axis, int phase) : step(axis.stride / std::gcd(axis.stride, axis.dilation)) {
    int first = 0;
    const int end = std::min(step, axis.size);
    while (first < end && (phase + axis.pad - int64_t{first} * axis.dilation) % axis.stride != 0) ++first;
    if (first == end) return;
    count = (axis.size - first - 1) / step + 1;
    last = first + (count - 1) * step;
    window = (phase + axis.pad - last * axis.dilation) / axis.stride;
    windows = static_cast<int>(int64_t{step} * axis.dilation / axis.stride);
  }
  int place(int64_t index) const { return last - static_cast<int>(index) * step; }
};

struct Windows {
  int n;
  Axis h, w;
};

// The windows of `size` [r,s] on `image` [n,h,w,c], one for each position of `grid` [n,p,q,k].
template <typename Attrs>
Windows windows_of(const Tensor& image, int r, int s, const Tensor& grid, const Attrs& attrs, const Ints& dilations) {
  return {image.dim(0),
          {image.dim(1), r, grid.dim(1), attrs.strides[0], dilations[0], attrs.pads[0]},
          {image.dim(2), s, grid.dim(2), attrs.strides[1], dilations[1], attrs.pads[1]}};
}
template <typename Attrs>
Windows windows_of(const Tensor& image, int r, int s, const Tensor& grid, const Attrs& attrs) {
  return windows_of(image, r, s, grid, attrs, attrs.dilations);
}

constexpr Ints kNoDilation = {2, {1, 1}};

// Whether the windows fit the image and the grid, for tensors of any shape.
template <typename Attrs>
bool windows_fit(const Tensor& image, int r, int s, const Tensor& grid, const Attrs& attrs, const Ints& dilations) {
  if (image.rank() != 4 || grid.rank() != 4 || image.dim(0) != grid.dim(0)) return false;
  if (attrs.strides.size != 2 || attrs.pads.size != 4 || dilations.size != 2) return false;
  const Windows at = windows_of(image, r, s, grid, attrs, dilations);
  return at.h.fits(attrs.pads[2]) && at.w.fits(attrs.pads[3]);
}
template <typename Attrs>
bool windows_fit(const Tensor& image, int r, int s, const Tensor& grid, const Attrs& attrs) {
  return windows_fit(image, r, s, grid, attrs, attrs.dilations);
}

}  // namespace lite
