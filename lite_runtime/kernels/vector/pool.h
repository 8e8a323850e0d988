#pragma once

#include <algorithm>
#include <limits>

#include "core/kernel.h"
#include "kernels/vector/math.h"
#include "kernels/vector/share.h"
#include "kernels/windows.h"

// Pooling and its gradients, vectors of channels, for any instruction set.

namespace lite {

// The part of a window that lies inside the image: places [i0, i1) by [j0, j1), the first of them on row, column.
struct Inside {
  int i0, i1, j0, j1, row, column;

  Inside(const Windows& at, int p, int q) {
    const int top = at.h.position(p, 0), left = at.w.position(q, 0);
    i0 = at.h.first_inside(top), i1 = std::max(at.h.behind_inside(top), i0);
    j0 = at.w.first_inside(left), j1 = std::max(at.w.behind_inside(left), j0);
    row = at.h.position(p, i0), column = at.w.position(q, j0);
  }
  int places() const { return (i1 - i0) * (j1 - j0); }

  // body(offset) for every place, in pixels from the start of image n.
  template <typename Body>
  void for_each(const Windows& at, Body body) const {
    for (int i = i0, y = row; i < i1; ++i, y += at.h.dilation) {
      int64_t offset = int64_t{y} * at.w.length + column;
      for (int j = j0; j < j1; ++j, offset += at.w.dilation) body(offset);
    }
  }
};

// body(n, p, q, index of the window) for all windows, rows of them on different threads.
template <typename Body>
void for_windows(ThreadPool* pool, const Windows& at, int channels, Body body) {
  const int64_t rows = int64_t{at.n} * at.h.count, cost = int64_t{at.w.count} * channels * at.h.size * at.w.size;
  parallel_for(pool, rows, share(rows, cost), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int q = 0; q < at.w.count; ++q) {
        body(row / at.h.count, static_cast<int>(row % at.h.count), q, row * at.w.count + q);
      }
    }
  });
}

// body(n, p, q, index of the window) for all windows, images on different threads: windows of one image overlap.
template <typename Body>
void for_windows_of_images(ThreadPool* pool, const Windows& at, int channels, Body body) {
  const int64_t windows = int64_t{at.h.count} * at.w.count;
  parallel_for(pool, at.n, share(at.n, windows * channels * at.h.size * at.w.size), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * windows; i < end * windows; ++i) {
      body(i / windows, static_cast<int>(i % windows / at.w.count), static_cast<int>(i % at.w.count), i);
    }
  });
}

// `Lanes` holds vectors of T: Isa for float.
template <class Lanes, typename T>
Status vector_max_pool2d(const Call<max_pool2d_attrs>& call) {
  using V = typename Lanes::V;
  const Tensor &x = call.in[0], &y = call.y();
  const Windows at = windows_of(x, call.attrs.size[0], call.attrs.size[1], y, call.attrs);
  const int channels = y.dim(3);
  const int64_t image = int64_t{at.h.length} * at.w.length * channels;
  const T lowest =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
  for_windows(call.context.pool, at, channels, [&](int64_t n, int p, int q, int64_t window) {
    const Inside inside(at, p, q);
    over<Lanes>(channels, [&](int64_t c, int lanes) {
      const T* from = x.as<T>() + n * image + c;
      V best = Lanes::all(lowest);
      inside.for_each(at, [&](int64_t i) { best = Lanes::max(Lanes::load(from + i * channels, lanes), best); });
      Lanes::store(y.as<T>() + window * channels + c, best, lanes);
    });
  });
  return Status::kOk;
}

template <class Isa>
Status vector_max_pool2d_dx(const Call<max_pool2d_dx_attrs>& call) {
  using V = typename Isa::V;
  const Tensor &g = call.in[0], &x = call.in[1], &y = call.y();
  const Windows at = windows_of(x, call.attrs.size[0], call.attrs.size[1], g, call.attrs);
  const int channels = y.dim(3);
  const int64_t image = int64_t{at.h.length} * at.w.length * channels;
  std::fill_n(y.f32(), y.elements(), 0.0f);
  for_windows_of_images(call.context.pool, at, channels, [&](int64_t n, int p, int q, int64_t window) {
    const Inside inside(at, p, q);
    over<Isa>(channels, [&](int64_t c, int lanes) {
      const float* from = x.f32() + n * image + c;
      float* to = y.f32() + n * image + c;
      V best = Isa::all(-std::numeric_limits<float>::infinity());
      inside.for_each(at, [&](int64_t i) { best = Isa::max(Isa::load(from + i * channels, lanes), best); });
      V rest = Isa::load(g.f32() + window * channels + c, lanes);  // 0 in lanes that have found their maximum
      inside.for_each(at, [&](int64_t i) {
        const auto hit = Isa::equal(Isa::load(from + i * channels, lanes), best);
        Isa::store(to + i * channels, Isa::load(to + i * channels, lanes) + Isa::both(hit, rest), lanes);
        rest = Isa::without(rest, hit);
      });
    });
  });
  return Status::kOk;
}

template <class Isa>
Status vector_avg_pool2d(const Call<avg_pool2d_attrs>& call) {
  using V = typename Isa::V;
  const Tensor &x = call.in[0], &y = call.y();
  const Windows at = windows_of(x, call.attrs.size[0], call.attrs.size[1], y, call.attrs, kNoDilation);
  const int channels = y.dim(3);
  const int64_t image = int64_t{at.h.length} * at.w.length * channels;
  for_windows(call.context.pool, at, channels, [&](int64_t n, int p, int q, int64_t window) {
    const Inside inside(at, p, q);
    const int count = call.attrs.count_include_pad ? at.h.size * at.w.size : std::max(inside.places(), 1);
    const V divisor = Isa::all(static_cast<float>(count));
    over<Isa>(channels, [&](int64_t c, int lanes) {
      const float* from = x.f32() + n * image + c;
      V sum = Isa::all(0.0f);
      inside.for_each(at, [&](int64_t i) { sum = sum + Isa::load(from + i * channels, lanes); });
      Isa::store(y.f32() + window * channels + c, sum / divisor, lanes);
    });
  });
  return Status::kOk;
}

template <class Isa>
Status vector_avg_pool2d_dx(const Call<avg_pool2d_dx_attrs>& call) {
  using V = typename Isa::V;
  const Tensor &g = call.in[0], &y = call.y();
  const Windows at = windows_of(y, call.attrs.size[0], call.attrs.size[1], g, call.attrs, kNoDilation);
  const int channels = y.dim(3);
  const int64_t image = int64_t{at.h.length} * at.w.length * channels;
  std::fill_n(y.f32(), y.elements(), 0.0f);
  for_windows_of_images(call.context.pool, at, channels, [&](int64_t n, int p, int q, int64_t window) {
    const Inside inside(at, p, q);
    const int count = call.attrs.count_include_pad ? at.h.size * at.w.size : std::max(inside.places(), 1);
    const V divisor = Isa::all(static_cast<float>(count));
    over<Isa>(channels, [&](int64_t c, int lanes) {
      float* to = y.f32() + n * image + c;
      const V part = Isa::load(g.f32() + window * channels + c, lanes) / divisor;
      inside.for_each(
          at, [&](int64_t i) { Isa::store(to + i * channels, Isa::load(to + i * channels, lanes) + part, lanes); });
    });
  });
  return Status::kOk;
}

}  // namespace lite
