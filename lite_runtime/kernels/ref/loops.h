#pragma once

#include <cstring>

#include "core/kernel.h"

// Loops that many reference kernels share, and the checks that go with them.

namespace lite {

// The offset in a tensor of shape `own` of the element that the numpy rule pairs with element
// `index` of a tensor of shape `out`.
inline int64_t broadcast_offset(const Ints& own, const Ints& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = 1; i <= out.size; ++i) {
    const int64_t at = index % out.data[out.size - i];
    index /= out.data[out.size - i];
    if (i > own.size) continue;
    const int size = own.data[own.size - i];
    if (size != 1) offset += at * stride;
    stride *= size;
  }
  return offset;
}

// y[i] = f(x[i])
template <typename T, typename U, typename Attrs, typename F>
Status unary(const Call<Attrs>& call, F f) {
  const T* x = call.in[0].template as<T>();
  U* y = call.y().template as<U>();
  const int64_t n = call.y().elements();
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  return Status::kOk;
}

// A number of steps along some axes, each with its strides in two tensors. Steps of 1 are left out
// and axes that lie behind each other in both tensors are taken as one.
struct Walk {
  int rank = 0;
  int64_t size[kMaxRank], from[kMaxRank], to[kMaxRank];

  // Adds an axis inside of those that are there.
  void add(int64_t steps, int64_t from_stride, int64_t to_stride) {
    if (steps == 1) return;
    const int last = rank - 1;
    if (rank > 0 && from[last] == steps * from_stride && to[last] == steps * to_stride) {
      size[last] *= steps;
    } else {
      size[rank++] = steps;
    }
    from[rank - 1] = from_stride;
    to[rank - 1] = to_stride;
  }
};

// A place in a walk: how far it is from the start of both tensors. As nearly every loop has one, it is not inlined:
// that is a tenth less code.
struct Place {
  int64_t from = 0, to = 0, at[kMaxRank] = {};

  // Step number `index`; the last axis is the fastest.
  __attribute__((noinline)) Place(const Walk& walk, int64_t index) {
    for (int i = walk.rank - 1; i >= 0; --i) {
      at[i] = index % walk.size[i];
      index /= walk.size[i];
      from += at[i] * walk.from[i];
      to += at[i] * walk.to[i];
    }
  }

  __attribute__((noinline)) void advance(const Walk& walk) {
    for (int i = walk.rank - 1; i >= 0; --i) {
      from += walk.from[i];
      to += walk.to[i];
      if (++at[i] < walk.size[i]) return;
      from -= walk.from[i] * walk.size[i];
      to -= walk.to[i] * walk.size[i];
      at[i] = 0;
    }
  }
};

// f(from, to) at every step of a walk
template <typename F>
void for_each(const Walk& walk, F f) {
  Walk outer = walk;
  int64_t n = 1, from = 0, to = 0, rows = 1;
  if (walk.rank > 0) {
    const int last = --outer.rank;
    n = walk.size[last];
    from = walk.from[last];
    to = walk.to[last];
  }
  for (int i = 0; i < outer.rank; ++i) rows *= outer.size[i];
  if (rows == 0) return;
  for (Place place(outer, 0); rows > 0; --rows, place.advance(outer)) {
    for (int64_t k = 0; k < n; ++k) f(place.from + k * from, place.to + k * to);
  }
}

struct Strides {
  int64_t data[kMaxRank] = {};
  int64_t operator[](int i) const { return data[i]; }
};

// How far apart neighbours along each axis are.
inline Strides strides_of(const Ints& shape) {
  Strides strides;
  int64_t stride = 1;
  for (int i = shape.size - 1; i >= 0; --i) {
    strides.data[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

// The product of the sizes of axes [begin, end).
inline int64_t product(const Ints& shape, int begin, int end) {
  int64_t n = 1;
  for (int i = begin; i < end; ++i) n *= shape[i];
  return n;
}

// How the elements of a and b lie along those of `out`, which they stretch to by the numpy rule.
__attribute__((noinline)) inline Walk pairs(const Ints& a, const Ints& b, const Ints& out) {
  const auto stride = [&](const Ints& shape, int axis) -> int64_t {
    const int own = axis - (out.size - shape.size);
    return own < 0 || shape[own] == 1 ? 0 : product(shape, own + 1, shape.size);
  };
  Walk walk;
  for (int i = 0; i < out.size; ++i) walk.add(out[i], stride(a, i), stride(b, i));
  return walk;
}

// y[i] = f(a[i], b[i]), stretched by the numpy rule
template <typename T, typename U, typename Attrs, typename F>
Status binary(const Call<Attrs>& call, F f) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const T *pa = a.template as<T>(), *pb = b.template as<T>();
  U* py = y.template as<U>();
  for_each(pairs(a.shape, b.shape, y.shape), [&](int64_t i, int64_t j) { *py++ = f(pa[i], pb[j]); });
  return Status::kOk;
}

// f(a value of an unsigned type of `size` bytes), for kernels that only move elements
template <typename F>
void with_element(size_t size, F f) {
  switch (size) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
  }
}

// y = the bytes of input 0, which it may share
template <typename Attrs>
Status copy_all(const Call<Attrs>& call) {
  if (call.y().data != call.in[0].data && call.y().size_bytes() > 0) {
    std::memcpy(call.y().data, call.in[0].data, call.y().size_bytes());
  }
  return Status::kOk;
}

inline bool same_shape(const Tensor& a, const Tensor& b) { return a.shape == b.shape; }

// The result has the shape and the type of input 0.
template <typename Attrs>
bool check_same(const Call<Attrs>& call) {
  return call.inputs == 1 && same_shape(call.in[0], call.y()) && call.in[0].dtype == call.y().dtype;
}

// Whether `own` stretches to `out` by the numpy rule.
inline bool stretches_to(const Ints& own, const Ints& out) {
  if (own.size > out.size) return false;
  for (int i = 1; i <= own.size; ++i) {
    const int size = own.data[own.size - i];
    if (size != 1 && size != out.data[out.size - i]) return false;
  }
  return true;
}

// Two inputs of one type stretch to the result, whose type is `dtype` (none: theirs).
template <typename Attrs>
bool check_binary(const Call<Attrs>& call, DType dtype = DType::none) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  return call.inputs == 2 && a.dtype == b.dtype && y.dtype == (dtype == DType::none ? a.dtype : dtype) &&
         stretches_to(a.shape, y.shape) && stretches_to(b.shape, y.shape);
}

inline bool is_axis(int axis, const Tensor& x) { return axis >= 0 && axis < x.rank(); }

// Whether `y` has the shape of x without `axes`, or with sizes of 1 there; marks them in `reduced`.
inline bool reduces_to(const Tensor& x, const Ints& axes, bool keep_dims, const Tensor& y, bool reduced[kMaxRank]) {
  for (int axis : axes) {
    if (!is_axis(axis, x) || reduced[axis]) return false;
    reduced[axis] = true;
  }
  Ints want;
  for (int i = 0; i < x.rank(); ++i) {
    if (!reduced[i] || keep_dims) want.data[want.size++] = reduced[i] ? 1 : x.shape[i];
  }
  return y.shape == want;
}

// The walks of a reduction of x: over the axes that it keeps and over those that it drops.
inline void split_axes(const Tensor& x, const Ints& axes, Walk* kept, Walk* dropped) {
  bool reduced[kMaxRank] = {};
  for (int axis : axes) reduced[axis] = true;
  const Strides stride = strides_of(x.shape);
  for (int i = 0; i < x.rank(); ++i) (reduced[i] ? dropped : kept)->add(x.shape[i], stride[i], 0);
}

// to[step] = from[step] at every step of the walk; x and y start at element `x_at` and `y_at`
inline void move(const Walk& walk, const Tensor& x, int64_t x_at, const Tensor& y, int64_t y_at) {
  with_element(size_of(y.dtype), [&](auto element) {
    using T = decltype(element);
    const T* from = x.as<T>() + x_at;
    T* to = y.as<T>() + y_at;
    Walk outer = walk;
    if (outer.rank == 0) {
      *to = *from;
      return;
    }
    const int last = --outer.rank;
    const int64_t n = walk.size[last], step = walk.from[last], to_step = walk.to[last];
    if (n == 0) return;
    for_each(outer, [&](int64_t i, int64_t j) {
      if (step == 1 && to_step == 1) {
        std::memcpy(to + j, from + i, static_cast<size_t>(n) * sizeof(T));
      } else {
        for (int64_t k = 0; k < n; ++k) to[j + k * to_step] = from[i + k * step];
      }
    });
  });
}

}  // namespace lite
