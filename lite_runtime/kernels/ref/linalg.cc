#include "kernels/activation.h"
#include "kernels/kernels.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

// The leading axes of a product: all but the last two.
Ints leading(const Ints& shape) {
  Ints out = shape;
  out.size -= 2;
  return out;
}

}  // namespace

CHECK(matmul) {
  if (!has_inputs(call, 2, 2, call.y().dtype)) return false;
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  if (a.rank() < 2 || b.rank() < 2 || y.rank() < 2) return false;
  const bool ta = call.attrs.transpose_a, tb = call.attrs.transpose_b;
  const int m = a.dim(ta ? -1 : -2), k = a.dim(ta ? -2 : -1), n = b.dim(tb ? -2 : -1);
  return b.dim(tb ? -1 : -2) == k && y.dim(-2) == m && y.dim(-1) == n &&
         stretches_to(leading(a.shape), leading(y.shape)) && stretches_to(leading(b.shape), leading(y.shape));
}
namespace {

template <typename T>
Status product_of(const Call<matmul_attrs>& call) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const bool ta = call.attrs.transpose_a, tb = call.attrs.transpose_b;
  const int64_t m = y.dim(-2), n = y.dim(-1), k = a.dim(ta ? -2 : -1);
  const Ints batch = leading(y.shape);
  int64_t products = 1;
  for (int size : batch) products *= size;
  for (int64_t p = 0; p < products; ++p) {
    const T* pa = a.as<T>() + broadcast_offset(leading(a.shape), batch, p) * m * k;
    const T* pb = b.as<T>() + broadcast_offset(leading(b.shape), batch, p) * k * n;
    T* py = y.as<T>() + p * m * n;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += pa[ta ? l * m + i : i * k + l] * pb[tb ? j * k + l : l * n + j];
        py[i * n + j] = sum;
      }
    }
  }
  return Status::kOk;
}

}  // namespace

KERNEL(matmul, f32, ref) { return product_of<float>(call); }
KERNEL(matmul, i32, ref) { return product_of<uint32_t>(call); }
KERNEL(matmul, i64, ref) { return product_of<uint64_t>(call); }

CHECK(linear) {
  if (!has_inputs(call, 2, 3)) return false;
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Tensor* b = call.optional(2);
  return x.rank() >= 2 && w.rank() == 2 && y.rank() == x.rank() && x.dim(-1) == w.dim(1) && y.dim(-1) == w.dim(0) &&
         rows_of(x) == rows_of(y) && (b == nullptr || is_vector(*b, w.dim(0)));
}
KERNEL(linear, f32, ref) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Tensor* b = call.optional(2);
  const int64_t rows = rows_of(x), in = w.dim(1), out = w.dim(0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < out; ++j) {
      float sum = b != nullptr ? b->f32()[j] : 0;
      for (int64_t l = 0; l < in; ++l) sum += x.f32()[i * in + l] * w.f32()[j * in + l];
      y.f32()[i * out + j] = activate(call.attrs.activation, sum);
    }
  }
  return Status::kOk;
}

}  // namespace lite
