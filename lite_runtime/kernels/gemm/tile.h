#pragma once

#include <cstddef>

#include "kernels/activation.h"
#include "kernels/gemm/sources.h"

// Micro-kernels: how a tile of C begins and ends, and the one of instruction sets that multiply vectors of B with one
// element of A.

namespace lite {

// What is done to each element of a product C.
struct ProductEnds {
  const float* bias = nullptr;  // one number a column, or null
  Activation activation = Activation::none;
  const float* added = nullptr;  // a matrix as C, whose rows lie `added_step` apart, or null
  int64_t added_step = 0;

  // Those of the columns from `column` on.
  ProductEnds from(int64_t column) const {
    return {bias != nullptr ? bias + column : nullptr, activation, added != nullptr ? added + column : nullptr,
            added_step};
  }
  const float* added_row(int64_t m) const { return added + m * added_step; }
};

// Memory that a whole tile fetches into the second cache while it multiplies: a line at `from` and, for each further k,
// `step` bytes on; none where that is 0.
struct Ahead {
  const char* from = nullptr;
  ptrdiff_t step = 0;
};

// What a micro-kernel does to a tile beside the product.
struct TileEnds {
  const float* bias;  // what sums start with, a number a column, or null
  bool add;           // they start with C instead
  Limits limits;      // of the results
  Ahead ahead = {};
};

// Rows by columns of accumulators, a vector of B for each column and an element of A in the registers. Fewer rows, in
// steps of RowStep, one row and fewer vectors have tiles of their own; so have WideRows of one vector more, where that
// is not 0.
template <class Isa_, int Rows, int Vectors, int RowStep, int WideRows = 0>
struct BroadcastTile {
  using Isa = Isa_;
  using V = typename Isa::V;
  using Weight = float;  // what B holds
  static constexpr int kRows = Rows, kColumns = Vectors * Isa::kLanes, kLeastColumns = Isa::kLanes;
  static constexpr int kMostColumns = kColumns + (WideRows > 0 ? Isa::kLanes : 0);
  static constexpr bool kAnyColumns = Isa::kMasks, kTakesOffsets = true;

  // C = limits(A B + (C or bias or 0)) for `rows` rows of `columns` columns, up to kMostColumns; no column beyond is
  // written. A's row r has its element k at a[r][index(k)]; B's row k lies at b + k b_step, in whole vectors unless the
  // instruction set has masks. Where `rows` is no multiple of RowStep, more are computed: a and c have rows for those,
  // which may be the last one again.
  template <class Index>
  __attribute__((noinline)) static void run(int rows, int columns, int64_t k, const float* const* a, Index index,
                                            const float* b, int64_t b_step, float* const* c, const TileEnds& ends) {
    if constexpr (WideRows > 0) {
      if (columns > kColumns) {
        return by_rows<WideRows, Vectors + 1>(rows, columns - kColumns, k, a, index, b, b_step, c, ends);
      }
    }
    by_columns<Vectors>(rows, columns, k, a, index, b, b_step, c, ends);
  }

 private:
  template <int R, int W>
  static constexpr bool kWhole = R == (W > Vectors ? WideRows : Rows);
  static constexpr bool kTwice = Isa::kRegisters >= 32;  // whole tiles take two steps of k at a time

  template <int W, class Index>
  static void by_columns(int rows, int columns, int64_t k, const float* const* a, Index index, const float* b,
                         int64_t b_step, float* const* c, const TileEnds& ends) {
    constexpr int kBefore = (W - 1) * Isa::kLanes;  // columns of all vectors but the last
    if constexpr (W > 1) {
      if (columns <= kBefore) return by_columns<W - 1>(rows, columns, k, a, index, b, b_step, c, ends);
    }
    by_rows<Rows, W>(rows, columns - kBefore, k, a, index, b, b_step, c, ends);
  }

  template <int R, int W, class Index>
  static void by_rows(int rows, int last, int64_t k, const float* const* a, Index index, const float* b, int64_t b_step,
                      float* const* c, const TileEnds& ends) {
    if constexpr (kWhole<R, W>) {
      const int whole = (rows + RowStep - 1) / R * R;
      if (whole > 0) tiles<R, W>(whole, last, k, a, index, b, b_step, c, ends);
      if (whole >= rows) return;
      rows -= whole, a += whole, c += whole;
    }
    if constexpr (R > RowStep) {
      if (kWhole<R, W> || rows <= R - RowStep) {
        return by_rows<R - RowStep, W>(rows, last, k, a, index, b, b_step, c, ends);
      }
    } else if constexpr (R > 1) {
      if (rows == 1) return tiles<1, W>(1, last, k, a, index, b, b_step, c, ends);
    }
    tiles<R, W>(R, last, k, a, index, b, b_step, c, ends);
  }

  // `rows` rows, R at a time, of W vectors, the last one with `last` lanes.
  template <int R, int W, class Index>
  static void tiles(int rows, int last, int64_t k, const float* const* a, Index index, const float* b, int64_t b_step,
                    float* const* c, const TileEnds& ends) {
    Ahead ahead = ends.ahead;
    for (int r = 0; r < rows; r += R, ahead.from += k * ahead.step) {
      tile<R, W>(last, k, a + r, index, b, b_step, c + r, ends, ahead);
    }
  }

  template <int R, int W, class Index>
  __attribute__((always_inline)) static inline void tile(int last, int64_t k, const float* const* a, Index index,
                                                         const float* b, int64_t b_step, float* const* c,
                                                         const TileEnds& ends, const Ahead& ahead) {
    const auto load = [last](const float* p, int w) {
      return w + 1 < W ? Isa::load(p + w * Isa::kLanes) : Isa::load(p + w * Isa::kLanes, last);
    };
    V acc[R][W];
    if (ends.add) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int w = 0; w < W; ++w) acc[r][w] = load(c[r], w);
      }
    } else {
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w) {
        const V start = ends.bias != nullptr ? load(ends.bias, w) : Isa::all(0.0f);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) acc[r][w] = start;
      }
    }
    if (kWhole<R, W> && W >= Vectors && ahead.step > 0) {
      add_products<kWhole<R, W> && W >= Vectors>(last, k, a, index, b, b_step, ahead, acc);
    } else {
      add_products<false>(last, k, a, index, b, b_step, {}, acc);
    }
    const V low = Isa::all(ends.limits.low), high = Isa::all(ends.limits.high);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* const to = c[r];
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w) {
        const V y = Isa::min(high, Isa::max(low, acc[r][w]));  // in this order NaN stays
        w + 1 < W ? Isa::store(to + w * Isa::kLanes, y) : Isa::store(to + w * Isa::kLanes, y, last);
      }
    }
  }

  template <bool kFetches, int R, int W, class Index>
  __attribute__((always_inline)) static inline void add_products([[maybe_unused]] int last, int64_t k,
                                                                 const float* const* a, Index index, const float* b,
                                                                 int64_t b_step, [[maybe_unused]] Ahead ahead,
                                                                 V (&acc)[R][W]) {
    const float* row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) row[r] = a[r];
    const auto step = [&](ptrdiff_t i) __attribute__((always_inline)) {
      if constexpr (kFetches) {
        __builtin_prefetch(ahead.from, 0, 2);
        ahead.from += ahead.step;
      }
      const ptrdiff_t at = static_cast<ptrdiff_t>(index(i));
      V from_b[W];
#pragma GCC unroll 4
      for (int w = 0; w < W; ++w) {
        const float* p = b + w * Isa::kLanes;
        if constexpr (Isa::kMasks) {
          from_b[w] = w + 1 < W ? Isa::load(p) : Isa::load_lanes(p, Isa::lanes(last));
        } else {
          from_b[w] = Isa::load(p);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const V x = Isa::all(row[r][at]);
#pragma GCC unroll 4
        for (int w = 0; w < W; ++w) acc[r][w] = Isa::fma(x, from_b[w], acc[r][w]);
      }
      b += static_cast<ptrdiff_t>(b_step);
    };
    if constexpr (kTwice && kWhole<R, W>) {
#pragma GCC unroll 2
      for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(k); ++i) step(i);
    } else {
      for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(k); ++i) step(i);
    }
  }
};

}  // namespace lite
