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
                  const ProductEnds& ends) {
    const auto product = [&](const auto& a) { Product::run(context, m, n, k, a, b, c, ends); };
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

// A convolution of each group: y [m,n] = patches [m,k] w^T, of conv2d and of conv2d_add. `Halves` is the micro-kernel
// for weights in float16, or Tile itself where there is none.
template <class Tile, class Halves = Tile>
class ConvLayer {
 public:
  template <class Attrs>
  explicit ConvLayer(const Call<Attrs>& call) : ConvLayer(inputs_of(call), call.y(), plain(call.attrs), call.context) {}

  Status run() const { return halves() ? run_with<Halves>() : run_with<Tile>(); }

  __attribute__((noinline)) uint64_t scratch_bytes() const {
    const bool packed = PreparedHeader::weights(context_, way_) != nullptr;
    if (by_squares()) {
      return with_squares(
          [&](auto squares) { return WinogradOf<decltype(squares)>::scratch_bytes(at_, c_, n_, packed); });
    }
    if (way_ == Way::dots) return static_cast<uint64_t>(m_ * k_ + Tile::Isa::kLanes) * sizeof(float);
    const Images images = {nullptr, at_, in_.x.dim(3), 0, c_};
    return halves() ? PatchProduct<Halves>::scratch_bytes(images, n_, k_, packed)
                    : PatchProduct<Tile>::scratch_bytes(images, n_, k_, packed);
  }

  uint64_t prepare(void* to) const { return halves() ? prepare_for<Halves>(to) : prepare_for<Tile>(to); }

 private:
  template <class T>
  __attribute__((noinline)) Status run_with() const {
    using Weight = typename T::Weight;
    const char* prepared = static_cast<const char*>(PreparedHeader::weights(context_, way_));
    if (m_ == 0) return Status::kOk;
    for (int g = 0; g < groups_; ++g) {
      const Images images = {in_.x.f32(), at_, in_.x.dim(3), g * c_, c_};
      const Weight* weight = in_.w.as<Weight>() + g * n_ * k_;
      const void* packed = prepared != nullptr ? prepared + g * packed_bytes<T>() : nullptr;
      const RowsC to = {y_.f32() + g * n_, in_.w.dim(0)};
      const ProductEnds ends = ends_.from(g * n_);
      if (by_squares()) {
        with_squares([&](auto squares) {
          const WinogradOf<decltype(squares), Weight> winograd(images, weight, n_, false);
          winograd.run(context_, static_cast<const float*>(packed), to, ends);
        });
      } else if (way_ == Way::dots) {
        using Isa = typename Tile::Isa;
        const RowsA rows = rows_of_patches<Isa>(context_, m_, k_, {images});
        dot_products<Isa>(context_, m_, n_, k_, rows, weight, to, ends);
      } else if (packed != nullptr) {
        const PackedB<T> b = {static_cast<const Weight*>(packed), n_, k_};
        PatchProduct<T>::run(context_, m_, n_, k_, images, b, to, ends);
      } else {
        PatchProduct<T>::run(context_, m_, n_, k_, images, ColumnsB{weight, k_}, to, ends);
      }
    }
    return Status::kOk;
  }

  template <class T>
  __attribute__((noinline)) uint64_t prepare_for(void* to) const {
    using Weight = typename T::Weight;
    const uint64_t size = sizeof(PreparedHeader) + groups_ * packed_bytes<T>();
    if (to == nullptr) return size;
    char* packed = static_cast<char*>(PreparedHeader::start(to, way_));
    for (int g = 0; g < groups_ && way_ != Way::dots; ++g, packed += packed_bytes<T>()) {
      const Weight* weight = in_.w.as<Weight>() + g * n_ * k_;
      if (by_squares()) {
        with_squares([&](auto squares) {
          using Packer = WinogradOf<decltype(squares), Weight>;
          Packer::pack(nullptr, weight, c_, n_, false, reinterpret_cast<float*>(packed));
        });
      } else {
        PackedB<T>::pack(ColumnsB{weight, k_}, n_, k_, reinterpret_cast<Weight*>(packed));
      }
    }
    return size;
  }

  __attribute__((noinline)) ConvLayer(const LayerInputs& in, const Tensor& y, const conv2d_attrs& attrs,
                                      const Context& context)
      : in_(in),
        y_(y),
        context_(context),
        ends_(ends_of(in, attrs.activation)),
        at_(windows_of(in.x, in.w.dim(1), in.w.dim(2), y, attrs)),
        groups_(attrs.groups),
        c_(in.w.dim(3)),
        n_(in.w.dim(0) / groups_),
        m_(int64_t{at_.n} * at_.h.count * at_.w.count),
        k_(int64_t{at_.h.size} * at_.w.size * c_),
        way_(way()) {}

  Way way() const {
    if (Winograd<Tile>::pays(at_, c_, n_)) {
      return large_squares_pay<Tile>(at_, c_, n_) ? Way::winograd_large : Way::winograd;
    }
    return dots_pay<Tile>(m_, k_) ? Way::dots : Way::product;
  }

  // Winograd's way, by the squares that the layer takes.
  template <class Squares, typename Weight = float>
  using WinogradOf = Winograd<Tile, Squares, Weight>;
  bool by_squares() const { return way_ == Way::winograd || way_ == Way::winograd_large; }
  template <class By>
  auto with_squares(const By& by) const {
    if constexpr (kHasLargeSquares<Tile>) {
      if (way_ == Way::winograd_large) return by(LargeSquares<typename Tile::Isa>());
    }
    return by(SmallSquares<typename Tile::Isa>());
  }

  // Of a group's packed weights.
  template <class T>
  uint64_t packed_bytes() const {
    if (way_ == Way::dots) return 0;
    if (by_squares()) {
      return with_squares([&](auto squares) {
        return static_cast<uint64_t>(WinogradOf<decltype(squares)>::packed_floats(c_, n_)) * sizeof(float);
      });
    }
    return static_cast<uint64_t>(PackedB<T>::numbers(n_, k_)) * sizeof(typename T::Weight);
  }
  bool halves() const { return !std::is_same_v<Tile, Halves> && in_.w.dtype == DType::f16; }

  const LayerInputs in_;
  const Tensor& y_;
  const Context& context_;
  const ProductEnds ends_;
  const Windows at_;
  const int groups_, c_, n_;  // channels and results of a group
  const int64_t m_, k_;
  const Way way_;
};

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
              .run(call.context, nullptr, RowsC{y.f32() + i * c, y.dim(3)});
          continue;
        }
        const PlacesB b = {w.f32() + i * weights, phase, k, c};
        const PixelsC to = {y.f32(), phase, y.dim(3), i * c};
        PatchProduct<Tile>::run(call.context, phase.pixels(), c, phase.places() * k, a, b, to, {});
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
