#pragma once

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"

// The kernels of the linalg family, for any micro-kernel.

namespace lite {

// The row-major matrices of a batch: a product takes one of each input.
template <class Tile>
void gemm_one(const Call<matmul_attrs>& call, int64_t m, int64_t n, int64_t k, const float* a, const float* b,
              float* y) {
  const bool ta = call.attrs.transpose_a, tb = call.attrs.transpose_b;
  const RowsC c = {y, n};
  const auto run = [&](const auto& from_a, const auto& from_b) {
    Gemm<Tile>::run(call.context, m, n, k, from_a, from_b, c);
  };
  if (ta && tb) return run(ColumnsA{a, m}, ColumnsB{b, k});
  if (ta) return run(ColumnsA{a, m}, RowsB{b, n});
  if (!tb) return run(RowsA{a, k}, RowsB{b, n});
  if (m < Tile::kRows) {
    return dot_products<typename Tile::Isa>(call.context, m, n, k, RowsA{a, k}, b, c, nullptr, Activation::none);
  }
  run(RowsA{a, k}, ColumnsB{b, k});
}

// The offset, in matrices, of the one that product `index` of the batch takes from an input of shape `own`.
inline int64_t matrix_offset(const Ints& own, const Ints& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = 3; i <= out.size; ++i) {
    const int64_t at = index % out.data[out.size - i];
    index /= out.data[out.size - i];
    if (i > own.size) break;
    const int size = own.data[own.size - i];
    if (size != 1) offset += at * stride;
    stride *= size;
  }
  return offset;
}

template <class Tile>
Status gemm_matmul(const Call<matmul_attrs>& call) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  int64_t m = y.dim(-2), n = y.dim(-1), k = a.dim(call.attrs.transpose_a ? -2 : -1), products = 1;
  for (int i = 0; i + 2 < y.rank(); ++i) products *= y.dim(i);
  if (b.rank() == 2 && !call.attrs.transpose_a && a.elements() == products * m * k) {  // one product over all rows
    m *= products;
    products = products > 0 ? 1 : 0;
  }
  for (int64_t p = 0; p < products; ++p) {
    gemm_one<Tile>(call, m, n, k, a.f32() + matrix_offset(a.shape, y.shape, p) * m * k,
                   b.f32() + matrix_offset(b.shape, y.shape, p) * k * n, y.f32() + p * m * n);
  }
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_matmul_scratch(const Call<matmul_attrs>& call) {
  return Gemm<Tile>::scratch_bytes(call.y().dim(-1), call.in[0].dim(call.attrs.transpose_a ? -2 : -1));
}

template <class Tile>
Status gemm_linear(const Call<linear_attrs>& call) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const float* bias = call.optional(2) != nullptr ? call.optional(2)->f32() : nullptr;
  const int64_t k = w.dim(1), n = w.dim(0);
  int64_t m = 1;
  for (int i = 0; i + 1 < x.rank(); ++i) m *= x.dim(i);
  const RowsA a = {x.f32(), k};
  const RowsC c = {y.f32(), n};
  if (m < Tile::kRows) {
    dot_products<typename Tile::Isa>(call.context, m, n, k, a, w.f32(), c, bias, call.attrs.activation);
  } else {
    Gemm<Tile>::run(call.context, m, n, k, a, ColumnsB{w.f32(), k}, c, {bias, call.attrs.activation});
  }
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_linear_scratch(const Call<linear_attrs>& call) {
  return Gemm<Tile>::scratch_bytes(call.in[1].dim(0), call.in[1].dim(1));
}

}  // namespace lite
