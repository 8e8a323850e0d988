#pragma once

#include <algorithm>
#include <type_traits>

#include "core/kernel.h"
#include "core/thread_pool.h"
#include "kernels/gemm/tile.h"
#include "kernels/layer_inputs.h"
#include "kernels/vector/math.h"
#include "kernels/vector/share.h"

namespace lite {

// C = activation(A B + bias + added), in blocks that fit the caches. README.md shows the loop.
//
// `Tile` is the micro-kernel of an instruction set; A and B are sources (sources.h), which say where a matrix comes
// from; `c.row(m)` is the place of row m of the result.
template <class Tile>
struct Gemm {
  using Isa = typename Tile::Isa;
  using Weight = typename Tile::Weight;
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns, kMostColumns = Tile::kMostColumns;
  static constexpr int kBlock = 4 * kRows;   // rows of A that are gathered together
  static constexpr int kDepth = 256;         // k of a block
  static constexpr int kGathered = 1 << 14;  // elements of A that a block may gather
  // Columns of a block, and of the last one: kDepth by kWidth of B stay in the second cache.
  static constexpr int kWidth = 512 / kColumns * kColumns, kMostWidth = kWidth + kMostColumns - kColumns;

  // Bytes of scratch for a B that has to be packed.
  static uint64_t scratch_bytes(int64_t n, int64_t k) {
    return static_cast<uint64_t>(
               PackedB<Tile>::numbers(std::min<int64_t>(n, kMostWidth), std::min<int64_t>(k, kDepth))) *
           sizeof(Weight);
  }

  template <class A, class B, class C>
  static void run(const Context& context, int64_t m, int64_t n, int64_t k, const A& a, const B& b, const C& c,
                  const ProductEnds& ends = {}) {
    if (m == 0 || n == 0) return;
    if constexpr (kIsPacked<B>) {
      multiply(context.pool, {m, 0, n, 0, k, true}, a, {b.base, b.then, k, 0, true}, c, ends);
    } else {
      Weight* packed = static_cast<Weight*>(context.scratch);
      for (int64_t j = 0, width; j < n; j += width) {
        width = n - j <= kMostWidth ? n - j : kWidth;
        for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepth) {
          const Part part = {m, j, width, k0, std::min<int64_t>(kDepth, k - k0), k0 + kDepth >= k};
          multiply(context.pool, part, a, panels_of(context.pool, part, b, packed), c, ends);
        }
      }
    }
  }

 private:
  // A part of the product: all rows by `width` columns from `j` on, `depth` of k from `k` on.
  struct Part {
    int64_t m, j, width, k, depth;
    bool last;  // of the parts over k
  };
  // A part of B: the columns of a panel, from j on, have their row k at base + j column_step + k row_step; where that
  // is 0, rows are as wide as their panel.
  struct Panels {
    const Weight *base, *then;  // what is multiplied next, or null
    int64_t column_step, row_step;
    bool prepared;  // long ago, for all rows; else just now, by the threads that multiply
  };
  static constexpr int64_t kMany = 1 << 14;  // weights, of which a cache may have none when they are wanted
  static constexpr int64_t kTasks = 8;       // enough to share evenly
  // Rows of A that are multiplied with one panel of B after the other.
  template <class A>
  static constexpr int kTogether = kInPlace<A> ? 16 * kRows : kBlock;

  static int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

  // A part of B where it lies, if few rows of A do not pay for packing it; else packed.
  template <class B>
  __attribute__((noinline)) static Panels panels_of(ThreadPool* pool, const Part& part, const B& b, Weight* packed) {
    if constexpr (std::is_same_v<B, RowsB>) {
      const bool whole = Tile::kAnyColumns || part.width % Tile::kLeastColumns == 0;
      if (part.m <= 8 * kRows && whole) return {b.base + part.k * b.step + part.j, nullptr, 1, b.step, false};
    }
    const int64_t panels = pieces_of<Tile>(part.width, kColumns);
    parallel_for(pool, panels, share(panels, 16 * kColumns * part.depth), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t j = p * kColumns;
        const int width = panel_width<Tile>(part.width - j);
        const int count = static_cast<int>(std::min<int64_t>(width, part.width - j));
        b.template panel<Tile>(part.k, part.depth, part.j + j, count, width, packed + j * part.depth);
      }
    });
    return {packed, nullptr, part.depth, 0, false};
  }

  template <class A, class C>
  __attribute__((noinline)) static void multiply(ThreadPool* pool, const Part& part, const A& a, const Panels& b,
                                                 const C& c, const ProductEnds& ends) {
    // With many rows, a block of A is gathered once; with few, A that is read in place is read once for each panel
    // anyway. Where B is prepared, each thread has rows of its own, which are in its cache where other layers share
    // theirs so, too; else it multiplies by the panels that it packed.
    const int64_t narrow = (kInPlace<A> ? 1 : 4) * kColumns;
    const int64_t chunk = part.m >= 32 * kRows ? kWidth : narrow, chunks = pieces_of<Tile>(part.width, chunk);
    const int64_t threads = kInPlace<A> && b.prepared && pool != nullptr ? pool->threads() : 1;
    const int64_t least = threads > 1 ? std::max(threads, divide_up(kTasks, chunks)) : 1;
    // As even as can be: a last block of a few rows would read all of B for little work.
    const int64_t blocks = std::max(std::min(least, divide_up(part.m, 2 * kRows)), divide_up(part.m, kTogether<A>));
    const int64_t rows = divide_up(divide_up(part.m, blocks), kRows) * kRows;
    const int64_t tasks = divide_up(part.m, rows) * chunks, width = std::min(chunk, part.width);
    const int64_t cost = 2 * rows * width * (part.depth + 8), least_cost = b.prepared ? kShared : kSharedProduct;
    // However rows and columns are shared, each sum is added up in the order of k.
    parallel_for(pool, tasks, tasks >= least_cost / cost ? share(tasks, cost) : tasks, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t m = task / chunks * rows, column = task % chunks, j = column * chunk;
        const int64_t columns = column + 1 < chunks ? chunk : part.width - j;
        const int count = static_cast<int>(std::min(rows, part.m - m));
        for (int64_t k = 0; k == 0 || k < part.depth; k += kDepth) {
          block(part, m, count, j, columns, k, a, b, c, ends);
        }
      }
    });
  }

  // `rows` rows from `m` on, by `width` columns from `j` of the part on, with up to kDepth of k from `k` of the part
  // on.
  template <class A, class C>
  static void block(const Part& part, int64_t m, int rows, int64_t j, int64_t width, int64_t k, const A& a,
                    const Panels& b, const C& c, const ProductEnds& ends) {
    static_assert(kGathered >= kBlock * kDepth, "room for a block");
    alignas(64) float gathered[kInPlace<A> ? 1 : kGathered + Isa::kLanes];
    float unused[kMostColumns] = {};
    const float* from[kTogether<A> + kRows];
    float* to[kTogether<A> + kRows];
    const int64_t depth = std::min<int64_t>(kDepth, part.depth - k);
    const auto index = a.template block<Isa, kBlock>(m, rows, part.k + k, depth, gathered, from);
    for (int r = 0; r < rows; ++r) to[r] = c.row(m + r) + part.j + j;
    for (int r = rows; r < rows + kRows; ++r) from[r] = from[rows - 1], to[r] = unused;
    const bool first = part.k + k == 0, last = part.last && k + kDepth >= part.depth;
    const bool started = first && ends.added != nullptr;
    for (int r = 0; r < rows && started; ++r) start_row(ends, m + r, part.j + j, width, to[r]);
    const ProductEnds of_block = {ends.bias != nullptr && first && !started ? ends.bias + part.j : nullptr,
                                  last ? ends.activation : Activation::none};
    tiles(from, index, rows, b, {part.m, j, width, k, depth, last}, part.width, to, !first || started, of_block);
  }

  // `count` elements of a row of C, from `column` on, before the products: bias + added.
  __attribute__((noinline)) static void start_row(const ProductEnds& ends, int64_t row, int64_t column, int64_t count,
                                                  float* to) {
    const float* added = ends.added_row(row) + column;
    const float* bias = ends.bias != nullptr ? ends.bias + column : nullptr;
    over<Isa>(count, [&](int64_t i, int lanes) {
      const auto y = Isa::load(added + i, lanes);
      Isa::store(to + i, bias != nullptr ? y + Isa::load(bias + i, lanes) : y, lanes);
    });
  }

  // The columns of `part`, of `width` in all. C's rows begin at `to`, which moves on from panel to panel; behind them
  // are as many as a tile has, which stay where they are.
  template <class Index>
  __attribute__((noinline)) static void tiles(const float* const* from, Index index, int rows, const Panels& b,
                                              const Part& part, int64_t width, float** to, bool add,
                                              const ProductEnds& ends) {
    const bool limited = only_limits(ends.activation);
    for (int64_t j = part.j, panel_columns; j < part.j + part.width; j += panel_columns) {
      panel_columns = panel_width<Tile>(width - j);
      const int count = static_cast<int>(std::min(panel_columns, width - j));
      const int64_t b_step = b.row_step > 0 ? b.row_step : panel_columns;
      const Weight* panel = b.base + j * b.column_step + part.k * b_step;
      const TileEnds of_tile = {ends.bias != nullptr ? ends.bias + j : nullptr, add, limits_of(ends.activation),
                                b.prepared ? after(b, part, j + panel_columns, width, rows) : Ahead()};
      Tile::run(rows, count, part.depth, from, index, panel, b_step, to, of_tile);
      if (!limited) activate_rows<Isa>(ends.activation, rows, count, to);
      for (int r = 0; r < rows; ++r) to[r] += count;
    }
  }

  // What is multiplied behind a panel, where the next one is that of `column`, shared evenly among the tiles of `rows`
  // rows: many weights seldom lie in the second cache when a layer begins, and where rows are few it would wait for
  // them longer than it multiplies. As much is fetched for every panel.
  static Ahead after(const Panels& b, const Part& part, int64_t column, int64_t width, int rows) {
    const int64_t end = part.j + part.width, last = part.k + part.depth;
    int64_t k = part.k;
    if (column >= end) column = last < b.column_step ? part.j : end, k = last < b.column_step ? last : 0;
    const Weight* next = b.then;
    if (column < width) next = b.base + column * b.column_step + k * panel_width<Tile>(width - column);
    if (next == nullptr || (b.then == nullptr && width * b.column_step < kMany)) return {};
    const ptrdiff_t bytes = kColumns * sizeof(Weight);  // of a row
    return {reinterpret_cast<const char*>(next), bytes / std::max(1, rows / kRows)};
  }
};

inline ProductEnds ends_of(const LayerInputs& in, Activation activation) {
  ProductEnds ends = {in.bias != nullptr ? in.bias->f32() : nullptr, activation};
  if (in.added != nullptr) ends.added = in.added->f32(), ends.added_step = in.added->dim(-1);
  return ends;
}

// Rows of C that lie `step` apart.
struct RowsC {
  float* base;
  int64_t step;
  float* row(int64_t m) const { return base + m * step; }
};

}  // namespace lite
