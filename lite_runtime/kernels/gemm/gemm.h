#pragma once

#include <algorithm>

#include "core/kernel.h"
#include "core/thread_pool.h"
#include "kernels/gemm/sources.h"
#include "kernels/vector/math.h"
#include "kernels/vector/share.h"

namespace lite {

// C = activation(A B + bias), in blocks that fit the caches. README.md shows the loop.
//
// `Tile` is the micro-kernel of an instruction set; A and B are sources (sources.h), which say where a matrix comes
// from; `c.row(m)` is the place of row m of the result.
template <class Tile>
struct Gemm {
  using Isa = typename Tile::Isa;
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;
  static constexpr int kBlock = 4 * kRows;   // rows of A that stay in the first cache, beside one panel of B
  static constexpr int kDepth = 256;         // k of a block
  static constexpr int kGathered = 1 << 14;  // elements of A that a block may gather
  // Columns of a block: kDepth by kWidth of B stay in the second cache.
  static constexpr int kWidth = 512 / kColumns * kColumns;

  // Bytes of scratch for packed B.
  static uint64_t scratch_bytes(int64_t n, int64_t k) {
    const int64_t whole = n / kColumns * kColumns, width = whole + panel_width<Tile>(n - whole);
    return static_cast<size_t>(std::min<int64_t>(width, kWidth) * std::min<int64_t>(k, kDepth)) * sizeof(float);
  }

  // What is done to each element of the result.
  struct Finish {
    const float* bias;  // one number a column, or null
    Activation activation;
  };

  template <class A, class B, class C>
  static void run(const Context& context, int64_t m, int64_t n, int64_t k, const A& a, const B& b, const C& c,
                  Finish finish = {nullptr, Activation::none}) {
    if (m == 0 || n == 0) return;
    float* packed = static_cast<float*>(context.scratch);
    for (int64_t j = 0; j < n; j += kWidth) {
      for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kDepth) {
        const Part part = {
            m, j, std::min<int64_t>(kWidth, n - j), k0, std::min<int64_t>(kDepth, k - k0), k0 + kDepth >= k};
        pack(context.pool, part, b, packed);
        multiply(context.pool, part, a, b, packed, c, finish);
      }
    }
  }

 private:
  // One block of B: `width` columns from `j` on, `depth` rows from `k` on.
  struct Part {
    int64_t m, j, width, k, depth;
    bool last;  // of the blocks over k
  };

  static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

  // The panel of columns [j, j + count) where it lies, if that is good enough; else null. Few rows of A do not pay
  // for packing B.
  template <class B>
  static const float* in_place(const Part& part, const B& b, int64_t j, int64_t count) {
    return kIsPacked<B> || (part.m <= 8 * kRows && (Tile::kAnyColumns || count == kColumns)) ? b.in_place(part.k, j)
                                                                                             : nullptr;
  }

  // The block of B as panels of kColumns columns, each [depth][columns], the last one narrower where it may be, with
  // zeros behind the last column.
  template <class B>
  static void pack(ThreadPool* pool, const Part& part, const B& b, float* packed) {
    const int64_t panels = round_up(part.width, kColumns) / kColumns;
    parallel_for(pool, panels, share(panels, 16 * kColumns * part.depth), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t j = p * kColumns, count = std::min<int64_t>(kColumns, part.width - j);
        if (in_place(part, b, part.j + j, count) != nullptr) continue;
        b.template panel<Tile>(part.k, part.depth, part.j + j, static_cast<int>(count), panel_width<Tile>(count),
                               packed + j * part.depth);
      }
    });
  }

  template <class A, class B, class C>
  static void multiply(ThreadPool* pool, const Part& part, const A& a, const B& b, const float* packed, const C& c,
                       const Finish& finish) {
    // With many rows, a block of A is gathered once; with few, more threads find work.
    const int64_t chunk = part.m >= 8 * kBlock ? kWidth : 8 * kColumns;
    const int64_t chunks = (part.width + chunk - 1) / chunk, blocks = (part.m + kBlock - 1) / kBlock;
    const int64_t tasks = blocks * chunks, cost = 2 * kBlock * std::min(chunk, part.width) * (part.depth + 8);
    parallel_for(pool, tasks, share(tasks, cost), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t j = task % chunks * chunk;
        block(part, task / chunks * kBlock, j, std::min(chunk, part.width - j), a, b, packed, c, finish);
      }
    });
  }

  // kBlock rows from `m` on, by `width` columns from `j` of the part on.
  template <class A, class B, class C>
  static void block(const Part& part, int64_t m, int64_t j, int64_t width, const A& a, const B& b, const float* packed,
                    const C& c, const Finish& finish) {
    static_assert(kGathered >= kBlock * kDepth, "room for a block");
    alignas(64) float gathered[kGathered + Isa::kLanes];
    float unused[kColumns] = {};
    const float* from[kBlock];
    float* to[kBlock];
    const int rows = static_cast<int>(std::min<int64_t>(kBlock, part.m - m));
    const auto index = a.template block<Isa, kBlock>(m, rows, part.k, part.depth, gathered, from);
    for (int r = 0; r < kBlock; ++r) {
      if (r >= rows) from[r] = from[rows - 1];
      to[r] = r < rows ? c.row(m + r) + part.j : unused;
    }
    for (int64_t end = j + width; j < end; j += kColumns) {
      const int count = static_cast<int>(std::min<int64_t>(kColumns, part.width - j));
      const float* panel = in_place(part, b, part.j + j, count);
      const int64_t b_step = panel != nullptr ? b.step() : panel_width<Tile>(count);
      if (panel == nullptr) panel = packed + j * part.depth;
      for (int r = 0; r < rows; r += kRows) {
        float* c_rows[kRows];
        for (int i = 0; i < kRows; ++i) c_rows[i] = r + i < rows ? to[r + i] + j : unused;
        tile(part, std::min(kRows, rows - r), part.j + j, count, from + r, index, panel, b_step, c_rows, finish);
      }
    }
  }

  template <class Index>
  static void tile(const Part& part, int rows, int64_t j, int count, const float* const* a, Index index, const float* b,
                   int64_t b_step, float* const* c, const Finish& finish) {
    const bool add = part.k > 0;
    const float* bias = finish.bias != nullptr && !add ? finish.bias + j : nullptr;
    if (Tile::kAnyColumns || count == kColumns) {
      Tile::run(rows, count, part.depth, a, index, b, b_step, c, bias, add);
    } else {
      edge_tile(rows, part.depth, count, a, index, b, b_step, c, bias, add);
    }
    if (!part.last || finish.activation == Activation::none) return;
    for (int r = 0; r < rows; ++r) {
      over<Isa>(count, [&](int64_t i, int lanes) {
        Isa::store(c[r] + i, vactivate<Isa>(finish.activation, Isa::load(c[r] + i, lanes)), lanes);
      });
    }
  }

  // The last columns of C, by way of a whole tile.
  template <class Index>
  static void edge_tile(int rows, int64_t k, int count, const float* const* a, Index index, const float* b,
                        int64_t b_step, float* const* c, const float* bias, bool add) {
    float whole[kRows][kColumns] = {}, whole_bias[kColumns] = {};
    float* c_rows[kRows];
    for (int r = 0; r < kRows; ++r) c_rows[r] = whole[r];
    for (int r = 0; r < rows && add; ++r) std::copy_n(c[r], count, whole[r]);
    if (bias != nullptr) std::copy_n(bias, count, whole_bias);
    Tile::run(rows, kColumns, k, a, index, b, b_step, c_rows, whole_bias, add);
    for (int r = 0; r < rows; ++r) std::copy_n(whole[r], count, c[r]);
  }
};

// Rows of C that lie `step` apart.
struct RowsC {
  float* base;
  int64_t step;
  float* row(int64_t m) const { return base + m * step; }
};

}  // namespace lite
