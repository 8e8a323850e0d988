#pragma once

#include "kernels/int8/rescale.h"

// From sums of vectors of results to int8, for instruction sets that int8/rescale.h can use. They give
//   Bounds(low, high)                        two bounds of bytes
//   store_bytes<W>(v, bounds, y, width)      W vectors, saturated and bounded, in the order of Blocks

namespace lite {

template <class I>
struct Finish {
  using V = typename I::V;

  // Whether a result with these weights can take the short way.
  template <class Weights>
  static bool takes(const Weights& weights, int32_t bias, int shift) {
    return Quick::takes(weights.bound(bias), shift) || weights.none();
  }

  template <int W>
  static void rows(bool quick, int count, const int32_t* sums, const int32_t* parameters, const Stored& stored,
                   int8_t* y, int64_t y_step, int width) {
    if (!quick) return general_rows<W>(count, sums, parameters, stored, y, y_step, width);
    Quick::has_sign(stored) ? quick_rows<W, true>(count, sums, parameters, stored, y, y_step, width)
                            : quick_rows<W, false>(count, sums, parameters, stored, y, y_step, width);
  }

 private:
  static constexpr int kParts = 1 + kQuickParts;

  template <int W, bool kSign>
  static void quick_rows(int count, const int32_t* sums, const int32_t* parameters, const Stored& stored, int8_t* y,
                         int64_t y_step, int width) {
    const typename I::Bounds bounds(stored.low, stored.high);
    using Rescale = QuickScale<I, kSign>;
    const auto scale_of = [parameters](int v) { return Rescale(parameters + (v * kParts + 1) * I::kLanes); };
    const Rescale scales[4] = {scale_of(0), scale_of(W > 1 ? 1 : 0), scale_of(W > 2 ? 2 : 0), scale_of(W > 3 ? 3 : 0)};
    for (int r = 0; r < count; ++r, sums += W * I::kLanes, y += y_step) {
      V v[W];
#pragma GCC unroll 4
      for (int i = 0; i < W; ++i) v[i] = scales[i](I::load(sums + i * I::kLanes));
      I::template store_bytes<W>(v, bounds, y, width);
    }
  }

  template <int W>
  static void general_rows(int count, const int32_t* sums, const int32_t* parameters, const Stored& stored, int8_t* y,
                           int64_t y_step, int width) {
    const typename I::Bounds bounds(stored.low, stored.high);
    const V zero = I::all(stored.zero);
    const V low = I::all(stored.low - stored.zero), high = I::all(stored.high - stored.zero);
    for (int r = 0; r < count; ++r, sums += W * I::kLanes, y += y_step) {
      V v[W];
      for (int i = 0; i < W; ++i) {
        const int32_t* parts = parameters + (i * kParts + 1) * I::kLanes;
        const Scale<I> scale(I::load(parts), I::load(parts + I::kLanes));
        // Bounded before the zero point is added, so that the sum cannot overflow.
        v[i] = I::add(I::min(I::max(scale(I::load(sums + i * I::kLanes)), low), high), zero);
      }
      I::template store_bytes<W>(v, bounds, y, width);
    }
  }
};

}  // namespace lite
