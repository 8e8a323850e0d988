#pragma once

#include "kernels/int8/image.h"

namespace lite {

// Products for instruction sets that multiply a few numbers of x, the same ones in each lane, with as many of each
// result and add them up: Isa::dot(sum, x, w). R rows and W vectors stay in registers.
template <class Isa>
struct DotTile {
  using V = typename Isa::V;

  template <int R, int W>
  static void run(const typename Isa::X* const* x, const Pieces& pieces, const int32_t* parameters,
                  const typename Isa::Weight* w, int32_t* sums) {
    constexpr int kStep = Isa::kTogether;
    V acc[R][W];
#pragma GCC unroll 4
    for (int v = 0; v < W; ++v) {
      acc[0][v] = Isa::load(parameters + v * Isa::kParts * Isa::kLanes);
#pragma GCC unroll 8
      for (int r = 1; r < R; ++r) acc[r][v] = acc[0][v];
    }
    const typename Isa::X* row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) row[r] = x[r];
    for (int64_t i = 0; i < pieces.lines; ++i) {
      for (int64_t j = 0; j < pieces.places; ++j) {
        const int64_t start = i * pieces.line_step + j * pieces.place_step, end = start + pieces.length;
        for (int64_t d = start; d < end; d += kStep, w += W * kStep * Isa::kLanes) {
          V from_w[W];
#pragma GCC unroll 4
          for (int v = 0; v < W; ++v) from_w[v] = Isa::load(w + v * kStep * Isa::kLanes);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const V from_x = Isa::broadcast(row[r] + d);
#pragma GCC unroll 4
            for (int v = 0; v < W; ++v) acc[r][v] = Isa::dot(acc[r][v], from_x, from_w[v]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < W; ++v) Isa::store(sums + (r * W + v) * Isa::kLanes, acc[r][v]);
    }
  }
};

}  // namespace lite
