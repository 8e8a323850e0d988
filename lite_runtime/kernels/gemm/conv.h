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

// The windows of conv2d_dw are many and its result is small: they are split into parts, so that threads find work, and
// the parts' results are added up. A thread that takes a part has its own piece of scratch: its result, then packed
// patches.
template <class Tile>
struct WeightGradient {
  static constexpr int64_t kMostParts = 4;
  static constexpr int64_t kSmall = 1 << 17;       // elements; a larger result gives threads enough to do
  static constexpr int64_t kFewestWindows = 1024;  // of a part

  const Tensor &x, &g, &y;
  const Windows at;
  const int groups, c;    // c: channels of a group
  const int64_t m, n;     // k of a group, r s c
  const int64_t windows;  // n p q
  const int64_t parts;

  explicit WeightGradient(const Call<conv2d_dw_attrs>& call)
      : x(call.in[0]),
        g(call.in[1]),
        y(call.y()),
        at(windows_of(x, y.dim(1), y.dim(2), g, call.attrs)),
        groups(call.attrs.groups),
        c(y.dim(3)),
        m(y.dim(0) / groups),
        n(int64_t{at.h.size} * at.w.size * c),
        windows(int64_t{at.n} * at.h.count * at.w.count),
        parts(y.elements() > kSmall ? 1 : std::clamp<int64_t>(windows / kFewestWindows, 1, kMostParts)) {}

  size_t result_bytes() const { return parts > 1 ? (y.size_bytes() + 63) / 64 * 64 : 0; }
  size_t piece_bytes() const { return result_bytes() + Gemm<Tile>::scratch_bytes(n, (windows + parts - 1) / parts); }

  // y [k,rsc] = g^T [k,windows] patches [windows,rsc] for part `index` of the windows.
  void part(int64_t index, const Context& context, float* to) const {
    const int64_t begin = windows * index / parts, end = windows * (index + 1) / parts;
    for (int i = 0; i < groups; ++i) {
      const ColumnsA a = {g.f32() + begin * g.dim(3) + i * m, g.dim(3)};
      const PatchesB b = {{x.f32(), at, x.dim(3), i * c, c}, begin};
      Gemm<Tile>::run(context, m, n, end - begin, a, b, RowsC{to + i * m * n, n});
    }
  }
};

template <class Tile>
Status gemm_conv2d_dw(const Call<conv2d_dw_attrs>& call) {
  const WeightGradient<Tile> gradient(call);
  const int64_t parts = gradient.parts, elements = call.y().elements();
  float* y = call.y().f32();
  if (parts == 1) {
    gradient.part(0, call.context, y);
    return Status::kOk;
  }
  const auto piece = [&](int64_t i) { return static_cast<char*>(call.context.scratch) + i * gradient.piece_bytes(); };
  const int64_t cost = 2 * elements * gradient.windows / parts;
  parallel_for(call.context.pool, parts, share(parts, cost), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Context alone = {piece(i) + gradient.result_bytes(), nullptr};
      gradient.part(i, alone, reinterpret_cast<float*>(piece(i)));
    }
  });
  using Isa = typename Tile::Isa;
  over<Isa>(elements, [&](int64_t i, int lanes) {
    auto sum = Isa::load(reinterpret_cast<float*>(piece(0)) + i, lanes);
    for (int64_t p = 1; p < parts; ++p) sum = sum + Isa::load(reinterpret_cast<float*>(piece(p)) + i, lanes);
    Isa::store(y + i, sum, lanes);
  });
  return Status::kOk;
}
template <class Tile>
size_t gemm_conv2d_dw_scratch(const Call<conv2d_dw_attrs>& call) {
  const WeightGradient<Tile> gradient(call);
  return gradient.parts * gradient.piece_bytes();
}

}  // namespace lite
