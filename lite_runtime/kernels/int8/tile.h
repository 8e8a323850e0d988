#pragma once

#include "kernels/int8/image.h"

// Products for instruction sets that multiply a few numbers of x, the same ones in each lane, with as many of each
// result and add them up: Isa::dot(sum, x, w). An instruction set derives from DotKernels and gives
//   V, load, store, broadcast(x)   vectors; kTogether numbers of x in each lane
//   Sum, start(v), total(sum)      what products are added up in, and vectors before and after
//   Finish                         rows<W> and takes as int8/finish.h has them

namespace lite {

template <class Isa>
struct DotKernels {
  template <class Weights>
  static bool takes(const Weights& weights, int32_t bias, int shift) {
    return Isa::Finish::takes(weights, bias, shift);
  }

  static constexpr bool kLines = false;
  static constexpr int result_of(int vectors, int v, int lane) { return Blocks::result_of(vectors, v, lane); }

  // multiply and finish of int8/conv.h, multiply_columns of int8/depthwise.h.
  template <typename X, typename Weight>
  static void multiply(bool, int rows, int vectors, const X* const* x, const Pieces& pieces, const int32_t* parameters,
                       const Weight* w, int32_t* sums) {
    with_number<Isa::kMostVectors>(vectors, [&](auto v) {
      constexpr int W = decltype(v)::kValue;
      with_number<Isa::rows_of(W)>(
          rows, [&](auto r) { DotKernels::tile<decltype(r)::kValue, W>(x, pieces, parameters, w, sums); });
    });
  }

  template <typename Column, typename Weight>
  static void multiply_columns(int vectors, int results, const Column* x, int64_t x_step, int64_t count, int64_t groups,
                               int64_t step, const int32_t* parameters, const Weight* w, int32_t* sums) {
    with_number<Isa::kMostVectors>(vectors, [&](auto v) {
      constexpr int W = decltype(v)::kValue;
      int i = 0;
      for (; i + 2 <= results; i += 2) {
        columns<2, W>(x + i * x_step, x_step, count, groups, step, parameters, w, sums + i * W * Isa::kLanes);
      }
      if (i < results) {
        columns<1, W>(x + i * x_step, x_step, count, groups, step, parameters, w, sums + i * W * Isa::kLanes);
      }
    });
  }

  static void finish(bool quick, int rows, int vectors, const int32_t* sums, const int32_t* parameters,
                     const Stored& stored, int8_t* y, int64_t y_step, int width) {
    with_number<Isa::kMostVectors>(vectors, [&](auto v) {
      Isa::Finish::template rows<decltype(v)::kValue>(quick, rows, sums, parameters, stored, y, y_step, width);
    });
  }

 protected:
  template <int N>
  struct Number {
    static constexpr int kValue = N;
  };

  // body(a constant that is `n`), which is at most N.
  template <int N, typename Body>
  static void with_number(int n, const Body& body) {
    if constexpr (N > 1) {
      if (n < N) return with_number<N - 1>(n, body);
    }
    body(Number<N>());
  }

  // R rows and W vectors stay in registers.
  template <int R, int W, typename X, typename Weight>
  static void tile(const X* const* x, const Pieces& pieces, const int32_t* parameters, const Weight* w, int32_t* sums) {
    using V = typename Isa::V;
    constexpr int kStep = Isa::kTogether, kLanes = Isa::kLanes;
    typename Isa::Sum acc[R][W];
#pragma GCC unroll 4
    for (int v = 0; v < W; ++v) {
      acc[0][v] = Isa::start(Isa::load(parameters + v * Isa::kParts * kLanes));
#pragma GCC unroll 8
      for (int r = 1; r < R; ++r) acc[r][v] = acc[0][v];
    }
    const X* row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) row[r] = x[r];
    for (int64_t i = 0; i < pieces.lines; ++i) {
      for (int64_t j = 0; j < pieces.places; ++j) {
        const int64_t start = i * pieces.line_step + j * pieces.place_step, end = start + pieces.length;
        for (int64_t d = start; d < end; d += kStep, w += W * kStep * kLanes) {
          V from_w[W];
#pragma GCC unroll 4
          for (int v = 0; v < W; ++v) from_w[v] = Isa::load(w + v * kStep * kLanes);
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
      for (int v = 0; v < W; ++v) Isa::store(sums + (r * W + v) * kLanes, Isa::total(acc[r][v]));
    }
  }

  // Q results of a block.
  template <int Q, int W, typename Column, typename Weight>
  static void columns(const Column* x, int64_t x_step, int64_t count, int64_t groups, int64_t step,
                      const int32_t* parameters, const Weight* w, int32_t* sums) {
    constexpr int kNumbers = Isa::kLanes * Isa::kRows;
    typename Isa::Sum acc[Q][W];
#pragma GCC unroll 4
    for (int v = 0; v < W; ++v) {
#pragma GCC unroll 2
      for (int q = 0; q < Q; ++q) acc[q][v] = Isa::start(Isa::load(parameters + v * Isa::kParts * Isa::kLanes));
    }
    for (int64_t j = 0; j < count; ++j, x += step) {
      for (int64_t g = 0; g < groups; ++g, w += W * kNumbers) {
#pragma GCC unroll 4
        for (int v = 0; v < W; ++v) {
          const auto from_w = Isa::load(w + v * kNumbers);
#pragma GCC unroll 2
          for (int q = 0; q < Q; ++q) {
            acc[q][v] = Isa::dot(acc[q][v], Isa::load(x + q * x_step + (g * W + v) * kNumbers), from_w);
          }
        }
      }
    }
#pragma GCC unroll 2
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
      for (int v = 0; v < W; ++v) Isa::store(sums + (q * W + v) * Isa::kLanes, Isa::total(acc[q][v]));
    }
  }
};

}  // namespace lite
