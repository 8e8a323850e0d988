#pragma once

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

// y[i] = f(a[i], b[i]), stretched by the numpy rule
template <typename T, typename U, typename Attrs, typename F>
Status binary(const Call<Attrs>& call, F f) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const T *pa = a.template as<T>(), *pb = b.template as<T>();
  U* py = y.template as<U>();
  const int64_t n = y.elements();
  if (a.shape == y.shape && b.shape == y.shape) {
    for (int64_t i = 0; i < n; ++i) py[i] = f(pa[i], pb[i]);
    return Status::kOk;
  }
  for (int64_t i = 0; i < n; ++i) {
    py[i] = f(pa[broadcast_offset(a.shape, y.shape, i)], pb[broadcast_offset(b.shape, y.shape, i)]);
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

}  // namespace lite
