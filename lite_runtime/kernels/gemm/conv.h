#pragma once

#include "core/kernel.h"
#include "kernels/gemm/dot.h"
#include "kernels/gemm/lines.h"
#include "kernels/gemm/prepared.h"
#include "kernels/gemm/winograd.h"

// The kernels of conv2d and its gradients, for any micro-kernel: each is a product for every group.

namespace lite {

// C = A B with A the patches of `images`: read in place, in a copy of small images, or in copied lines where a block
// has room for those, gathered else. Scratch: what the product wants, a number for each element of a patch, the copy.
template <class Tile>
struct PatchProduct {
  using Product = Gemm<Tile>;

  template <class B, class C>
  static void run(const Context& context, int64_t m, int64_t n, int64_t k, const Images& images, const B& b, const C& c,
                  const typename Product::Finish& finish) {
    const auto product = [&](const auto& a) { Product::run(context, m, n, k, a, b, c, finish); };
    if (are_pixels(images.at)) return product(RowsA{images.base + images.first, images.channels});
    if (m == 0 || k == 0 || !Tile::kTakesOffsets) return product(PatchesA{images});
    char* scratch = static_cast<char*>(context.scratch) + product_bytes(n, k, kIsPacked<B>);
    int64_t* offsets = reinterpret_cast<int64_t*>(scratch);
    float* copy = reinterpret_cast<float*>(offsets + k);
    const Images seen =
        PaddedImages::floats(images) > 0 ? PaddedImages::copy<typename Tile::Isa>(context.pool, images, copy) : images;
    const Lines lines(seen);
    if (lines.copied && !LinesA::fits<Product::kBlock, Product::kDepth, Product::kGathered>(lines)) {
      return product(PatchesA{images});
    }
    lines.offsets(offsets);
    lines.copied ? product(LinesA{lines, offsets}) : product(WindowsA{lines, offsets});
  }

  static uint64_t scratch_bytes(const Images& images, int64_t n, int64_t k, bool packed) {
    const uint64_t product = product_bytes(n, k, packed);
    if (!Tile::kTakesOffsets || are_pixels(images.at)) return product;
    return product + static_cast<uint64_t>(k) * sizeof(int64_t) +
           static_cast<uint64_t>(PaddedImages::floats(images)) * sizeof(float);
  }

 private:
  static uint64_t product_bytes(int64_t n, int64_t k, bool packed) {
    return packed ? 0 : (Product::scratch_bytes(n, k) + 7) / 8 * 8;
  }
};

// The patches of few windows as a matrix: the pixels themselves, or copies in scratch.
template <class Isa>
RowsA rows_of_patches(const Context& context, int64_t m, int64_t k, const PatchesA& patches) {
  const Images& images = patches.images;
  if (are_pixels(images.at)) return {images.base + images.first, images.channels};
  float* to = static_cast<float*>(context.scratch);
  for (int64_t r = 0; r < m; ++r) {
    const float* from;
    patches.block<Isa, 1>(r, 1, 0, k, to + r * k, &from);
    if (from != to + r * k) copy_floats<Isa>(from, k, to + r * k);
  }
  return {to, k};
}

// A convolution's sizes: of each group y [m,n] = patches [m,k] w^T.
template <class Tile>
struct ConvSizes {
  Windows at;
  int groups, c, n;  // channels and results of a group
  int64_t m, k;
  Way way;

  __attribute__((noinline)) explicit ConvSizes(const Call<conv2d_attrs>& call)
      : at(windows_of(call.in[0], call.in[1].dim(1), call.in[1].dim(2), call.y(), call.attrs)),
        groups(call.attrs.groups),
        c(call.in[1].dim(3)),
        n(call.in[1].dim(0) / groups),
        m(int64_t{at.n} * at.h.count * at.w.count),
        k(int64_t{at.h.size} * at.w.size * c),
        way(Winograd<Tile>::pays(at, c, n) ? Way::winograd
            : dots_pay<Tile>(m, k)         ? Way::dots
                                           : Way::product) {}

  // Floats of a group's packed weights.
  int64_t packed_floats() const {
    if (way == Way::dots) return 0;
    return way == Way::winograd ? Winograd<Tile>::packed_floats(c, n) : PackedB<Tile>::floats(n, k);
  }
};

// y [npq,k] = patches [npq,rsc] w^T
template <class Tile>
Status gemm_conv2d(const Call<conv2d_attrs>& call) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const ConvSizes<Tile> s(call);
  const float* bias = call.optional(2) != nullptr ? call.optional(2)->f32() : nullptr;
  const float* prepared = PreparedHeader::weights(call.context, s.way);
  if (s.m == 0) return Status::kOk;
  for (int g = 0; g < s.groups; ++g) {
    const Images images = {x.f32(), s.at, x.dim(3), g * s.c, s.c};
    const float *weight = w.f32() + g * s.n * s.k, *group_bias = bias != nullptr ? bias + g * s.n : nullptr;
    const float* packed = prepared != nullptr ? prepared + g * s.packed_floats() : nullptr;
    const RowsC to = {y.f32() + g * s.n, w.dim(0)};
    const typename Gemm<Tile>::Finish finish = {group_bias, call.attrs.activation};
    if (s.way == Way::winograd) {
      Winograd<Tile>(images, weight, s.n, false).run(call.context, packed, to, group_bias, call.attrs.activation);
    } else if (s.way == Way::dots) {
      using Isa = typename Tile::Isa;
      const RowsA rows = rows_of_patches<Isa>(call.context, s.m, s.k, {images});
      dot_products<Isa>(call.context, s.m, s.n, s.k, rows, weight, to, group_bias, call.attrs.activation);
    } else if (packed != nullptr) {
      PatchProduct<Tile>::run(call.context, s.m, s.n, s.k, images, PackedB<Tile>{packed, s.n, s.k}, to, finish);
    } else {
      PatchProduct<Tile>::run(call.context, s.m, s.n, s.k, images, ColumnsB{weight, s.k}, to, finish);
    }
  }
  return Status::kOk;
}
template <class Tile>
uint64_t gemm_conv2d_scratch(const Call<conv2d_attrs>& call) {
  const ConvSizes<Tile> s(call);
  const bool packed = PreparedHeader::weights(call.context, s.way) != nullptr;
  if (s.way == Way::winograd) return Winograd<Tile>::scratch_bytes(s.at, s.c, s.n, packed);
  if (s.way == Way::dots) return static_cast<uint64_t>(s.m * s.k + Tile::Isa::kLanes) * sizeof(float);
  return PatchProduct<Tile>::scratch_bytes({nullptr, s.at, call.in[0].dim(3), 0, s.c}, s.n, s.k, packed);
}
template <class Tile>
uint64_t gemm_conv2d_prepare(const Call<conv2d_attrs>& call, void* to) {
  const ConvSizes<Tile> s(call);
  const uint64_t size = sizeof(PreparedHeader) + static_cast<uint64_t>(s.groups * s.packed_floats()) * sizeof(float);
  if (to == nullptr) return size;
  float* packed = PreparedHeader::start(to, s.way);
  for (int g = 0; g < s.groups && s.way != Way::dots; ++g, packed += s.packed_floats()) {
    const float* weight = call.in[1].f32() + g * s.n * s.k;
    if (s.way == Way::winograd) {
      Winograd<Tile>::pack(nullptr, weight, s.c, s.n, false, packed);
    } else {
      PackedB<Tile>::pack(ColumnsB{weight, s.k}, s.n, s.k, 0, s.n, packed);
    }
  }
  return size;
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
        if (at.h.stride == 1 && at.w.stride == 1 && Winograd<Tile>::pays(a.at, k, c)) {  // a phase of all pixels
          Winograd<Tile>(a, w.f32() + i * weights, c, true)
              .run(call.context, nullptr, RowsC{y.f32() + i * c, y.dim(3)}, nullptr, Activation::none);
          continue;
        }
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
  const Tensor &g = call.in[0], &w = call.in[1];
  const int c = w.dim(3), k = w.dim(0) / call.attrs.groups;
  const Windows at = windows_of(call.y(), w.dim(1), w.dim(2), g, call.attrs), phase = Phase(at, 0, 0).windows();
  if (at.h.stride == 1 && at.w.stride == 1 && Winograd<Tile>::pays(phase, k, c)) {
    return Winograd<Tile>::scratch_bytes(phase, k, c, false);
  }
  uint64_t most = 0;
  for (int row = 0; row < std::min(at.h.stride, at.h.length); ++row) {
    for (int column = 0; column < std::min(at.w.stride, at.w.length); ++column) {
      const Images a = {nullptr, Phase(at, row, column).windows(), g.dim(3), 0, k};
      most = std::max(most, PatchProduct<Tile>::scratch_bytes(a, c, int64_t{k} * w.dim(1) * w.dim(2), false));
    }
  }
  return most;
}

}  // namespace lite
