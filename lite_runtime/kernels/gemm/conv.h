#pragma once

#include "core/kernel.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/lines.h"

// The kernels of conv2d and its gradients, for any micro-kernel: each is a product for every group.

namespace lite {

// C = A B with A the patches of `images`: read in place or from copied lines where a block has room for those, gathered
// else. Scratch: what the product wants, then a number for each element of a patch.
template <class Tile>
struct PatchProduct {
  template <class B, class C>
  static void run(const Context& context, int64_t m, int64_t n, int64_t k, const Images& images, const B& b, const C& c,
                  const typename Gemm<Tile>::Finish& finish) {
    using Product = Gemm<Tile>;
    const PatchesA patches = {images};
    const Lines lines(images);
    if (Tile::kTakesOffsets && !patches.whole_pixels() &&
        LinesA::fits<Product::kBlock, Product::kDepth, Product::kGathered>(lines)) {
      int64_t* offsets = reinterpret_cast<int64_t*>(static_cast<char*>(context.scratch) + product_bytes(n, k));
      lines.offsets(offsets);
      return Product::run(context, m, n, k, LinesA{lines, offsets}, b, c, finish);
    }
    Product::run(context, m, n, k, patches, b, c, finish);
  }

  static uint64_t scratch_bytes(int64_t n, int64_t k) {
    return product_bytes(n, k) + (Tile::kTakesOffsets ? static_cast<uint64_t>(k) * sizeof(int64_t) : 0);
  }

 private:
  static uint64_t product_bytes(int64_t n, int64_t k) { return (Gemm<Tile>::scratch_bytes(n, k) + 7) / 8 * 8; }
};

// The patches of few windows one behind the other, in scratch.
template <class Isa>
RowsA gathered_patches(const Context& context, int64_t m, int64_t k, const PatchesA& patches) {
  float* to = static_cast<float*>(context.scratch);
  for (int64_t r = 0; r < m; ++r) {
    const float* from;
    patches.block<Isa, 1>(r, 1, 0, k, to + r * k, &from);
  }
  return {to, k};
}

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
    if (dots_pay<Tile>(m, k)) {
      const auto dots = [&](const auto& rows) {
        dot_products<typename Tile::Isa>(call.context, m, n, k, rows, weight, to, group_bias, call.attrs.activation);
      };
      a.whole_pixels() ? dots(a) : dots(gathered_patches<typename Tile::Isa>(call.context, m, k, a));
    } else {
      PatchProduct<Tile>::run(call.context, m, n, k, a.images, ColumnsB{weight, k}, to,
                              {group_bias, call.attrs.activation});
    }
  }
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_conv2d_scratch(const Call<conv2d_attrs>& call) {
  const Tensor &w = call.in[1], &y = call.y();
  const int64_t m = int64_t{y.dim(0)} * y.dim(1) * y.dim(2), k = int64_t{w.dim(1)} * w.dim(2) * w.dim(3);
  if (dots_pay<Tile>(m, k)) return static_cast<uint64_t>(m * k + Tile::Isa::kLanes) * sizeof(float);
  return PatchProduct<Tile>::scratch_bytes(w.dim(0) / call.attrs.groups, k);
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
        const Images a = {g.f32(), phase.windows(), g.dim(3), i * k, k};
        const PlacesB b = {w.f32() + i * weights, phase, k, c};
        const PixelsC to = {y.f32(), phase, y.dim(3), i * c};
        PatchProduct<Tile>::run(call.context, phase.pixels(), c, phase.places() * k, a, b, to,
                                {nullptr, Activation::none});
      }
    }
  }
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_conv2d_dx_scratch(const Call<conv2d_dx_attrs>& call) {
  const Tensor& w = call.in[1];
  return PatchProduct<Tile>::scratch_bytes(w.dim(3), int64_t{w.dim(0)} / call.attrs.groups * w.dim(1) * w.dim(2));
}

}  // namespace lite
