#include "kernels/activation.h"
#include "kernels/kernels.h"
#include "kernels/layer_inputs.h"
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

namespace {

template <typename Attrs>
bool linear_fits(const Call<Attrs>& call) {
  if (!has_inputs(call, kLeastInputs<Attrs>, kLeastInputs<Attrs> + 1)) return false;
  const LayerInputs in = inputs_of(call);
  const Tensor& y = call.y();
  return in.x.rank() >= 2 && in.w.rank() == 2 && y.rank() == in.x.rank() && in.x.dim(-1) == in.w.dim(1) &&
         y.dim(-1) == in.w.dim(0) && rows_of(in.x) == rows_of(y) && in.ends_fit(y, in.w.dim(0));
}

// y = activation(x w^T + bias + added)
template <typename Attrs>
Status linear(const Call<Attrs>& call) {
  const LayerInputs in = inputs_of(call);
  const int64_t rows = rows_of(in.x), depth = in.w.dim(1), columns = in.w.dim(0);
  const float *x = in.x.f32(), *w = in.w.f32();
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float sum = in.bias != nullptr ? in.bias->f32()[j] : 0;
      for (int64_t l = 0; l < depth; ++l) sum += x[i * depth + l] * w[j * depth + l];
      if (in.added != nullptr) sum += in.added->f32()[i * columns + j];
      call.y().f32()[i * columns + j] = activate(call.attrs.activation, sum);
    }
  }
  return Status::kOk;
}

}  // namespace

CHECK(linear) { return linear_fits(call); }
KERNEL(linear, f32, ref) { return linear(call); }

CHECK(linear_add) { return linear_fits(call); }
KERNEL(linear_add, f32, ref) { return linear(call); }

}  // namespace lite
