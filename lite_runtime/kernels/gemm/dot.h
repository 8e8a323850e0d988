#pragma once

#include "kernels/gemm/gemm.h"

// C = activation(A B^T + bias + added) by dot products: rows of A and of B are read where they lie, nothing is packed.
// That pays for few rows of A.

namespace lite {

// Some rows of A by 4 of B at a time, an accumulator for each pair.
template <class Isa>
struct DotTile {
  using V = typename Isa::V;
  static constexpr int kRows = Isa::kRegisters >= 32 ? 6 : 3, kColumns = 4;

  // to[r][j] = a[r] . b[j] over k elements for R rows
  template <int R, typename W>
  static void run(int64_t k, const float* const* a, const W* const* b, float (*to)[kColumns]) {
    V sum[R][kColumns];
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sum[r][j] = Isa::all(0.0f);
    }
    over<Isa>(k, [&](int64_t i, int lanes) {
      V x[R];
#pragma GCC unroll 6
      for (int r = 0; r < R; ++r) x[r] = Isa::load(a[r] + i, lanes);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        const V w = Isa::load(b[j] + i, lanes);
#pragma GCC unroll 6
        for (int r = 0; r < R; ++r) sum[r][j] = Isa::fma(x[r], w, sum[r][j]);
      }
    });
#pragma GCC unroll 6
    for (int r = 0; r < R; ++r) Isa::sums(sum[r][0], sum[r][1], sum[r][2], sum[r][3], to[r]);
  }

  // The same for 1 to kRows rows.
  template <int R = kRows, typename W>
  static void run(int rows, int64_t k, const float* const* a, const W* const* b, float (*to)[kColumns]) {
    if constexpr (R > 1) {
      if (rows < R) return run<R - 1>(rows, k, a, b, to);
    }
    run<R>(k, a, b, to);
  }
};

// Whether dot products take less time than packing B and multiplying: for few rows, and more of them the longer they
// are. Measured with AVX-512, for rows that start anywhere in a line of the cache.
template <class Tile>
bool dots_pay(int64_t m, int64_t k) {
  return m == 1 || m * (k + 1024) < (m <= Tile::Isa::kLanes ? 5 : 3) * Tile::Isa::kLanes * k;
}

// `a.row(m)` is where row m of A lies, `c.row(m)` is the place of row m of the result; B's rows are `k` apart.
template <class Isa, class A, typename W, class C>
void dot_products(const Context& context, int64_t m, int64_t n, int64_t k, const A& a, const W* b, const C& c,
                  const ProductEnds& ends = {}) {
  using Tile = DotTile<Isa>;
  constexpr int kColumns = Tile::kColumns;
  if (m == 0) return;
  const int64_t groups = (n + kColumns - 1) / kColumns;
  const bool limited = only_limits(ends.activation);
  const auto low = Isa::all(limits_of(ends.activation).low), high = Isa::all(limits_of(ends.activation).high);
  parallel_for(context.pool, groups, share(groups, 2 * kColumns * m * (k + 16)), [&](int64_t begin, int64_t end) {
    for (int64_t r = 0; r < m; r += Tile::kRows) {  // these rows of A stay in the first cache
      const int rows = static_cast<int>(std::min<int64_t>(Tile::kRows, m - r));
      const float* a_rows[Tile::kRows];
      for (int i = 0; i < rows; ++i) a_rows[i] = a.row(r + i);
      for (int64_t j = begin * kColumns; j < std::min(end * kColumns, n); j += kColumns) {
        const int count = static_cast<int>(std::min<int64_t>(kColumns, n - j));
        const W* b_rows[kColumns];
        float start[kColumns] = {}, sums[Tile::kRows][kColumns];
        for (int i = 0; i < kColumns; ++i) b_rows[i] = b + std::min(j + i, n - 1) * k;
        for (int i = 0; i < count && ends.bias != nullptr; ++i) start[i] = ends.bias[j + i];
        Tile::run(rows, k, a_rows, b_rows, sums);
        for (int i = 0; i < rows; ++i) {
          auto y = Isa::load(sums[i], kColumns) + Isa::load(start, kColumns);
          if (ends.added != nullptr) y = y + Isa::load(ends.added_row(r + i) + j, count);
          float* to = c.row(r + i) + j;
          Isa::store(to, Isa::min(high, Isa::max(low, y)), count);
          if (!limited) activate_row<Isa>(ends.activation, count, to);
        }
      }
    }
  });
}

}  // namespace lite
