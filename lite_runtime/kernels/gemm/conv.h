#pragma once

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/patches.h"

// The kernels of conv2d and its gradients, for any micro-kernel: each is a product for every group.

namespace lite {

// y [npq,k] = patches [npq,rsc] w^T
template <class Tile>
Status gemm_conv2d(const Call<conv2d_attrs>& call) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Windows at = windows_of(x, w.dim(1), w.dim(2), y, call.attrs);
  const float* bias = call.optional(2) != nullptr ? call.optional(2)->f32() : nullptr;
  const int groups = call.attrs.groups, c = w.dim(3), n = w.dim(0) / groups;
  const int64_t m = int64_t{at.n} * at.h.count * at.w.count, k = int64_t{at.h.size} * at.w.size * c;
  if (m == 0) return Status::kOk;
  for (int g = 0; g < groups; ++g) {
    const PatchesA a = {{x.f32(), at, x.dim(3), g * c, c}};
    const float *weight = w.f32() + g * n * k, *group_bias = bias != nullptr ? bias + g * n : nullptr;
    const RowsC to = {y.f32() + g * n, w.dim(0)};
    if (m < Tile::kRows && a.whole_pixels()) {
      dot_products<typename Tile::Isa>(call.context, m, n, k, a, weight, to, group_bias, call.attrs.activation);
    } else {
      Gemm<Tile>::run(call.context, m, n, k, a, ColumnsB{weight, k}, to, {group_bias, call.attrs.activation});
    }
  }
  return Status::kOk;
}
template <class Tile>
size_t gemm_conv2d_scratch(const Call<conv2d_attrs>& call) {
  const Tensor& w = call.in[1];
  return Gemm<Tile>::scratch_bytes(w.dim(0) / call.attrs.groups, int64_t{w.dim(1)} * w.dim(2) * w.dim(3));
}

// For every phase of the strides: y [pixels,c] = what the windows pass back [pixels,places k] w [places k,c]
template <class Tile>
Status gemm_conv2d_dx(const Call<conv2d_dx_attrs>& call) {
  const Tensor &g = call.in[0], &w = call.in[1], &y = call.y();
  const Windows at = windows_of(y, w.dim(1), w.dim(2), g, call.attrs);
  const int groups = call.attrs.groups, c = w.dim(3), k = w.dim(0) / groups;
  const int64_t weights = int64_t{k} * at.h.size * at.w.size * c;  // of a group
  for (int row = 0; row < std::min(at.h.stride, at.h.length); ++row) {
    for (int column = 0; column < std::min(at.w.stride, at.w.length); ++column) {
      const Phase phase(at, row, column);
      for (int i = 0; i < groups; ++i) {
        const GridA a = {g.f32() + i * k, phase, g.dim(3), k};
        const PlacesB b = {w.f32() + i * weights, phase, k, c};
        const PixelsC to = {y.f32(), phase, y.dim(3), i * c};
        Gemm<Tile>::run(call.context, phase.pixels(), c, phase.places() * k, a, b, to);
      }
    }
  }
  return Status::kOk;
}
template <class Tile>
size_t gemm_conv2d_dx_scratch(const Call<conv2d_dx_attrs>& call) {
  const Tensor& w = call.in[1];
  return Gemm<Tile>::scratch_bytes(w.dim(3), int64_t{w.dim(0)} / call.attrs.groups * w.dim(1) * w.dim(2));
}

}  // namespace lite
