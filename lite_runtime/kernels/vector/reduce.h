#pragma once

#include <algorithm>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/math.h"

// Reductions over the last axes, the first ones, or some between, for any instruction set. The order of additions
// depends on shapes alone. Long sums are sums of shorter ones, which keeps rounding errors small.

namespace lite {

struct Sum {
  static constexpr float kStart = 0;
  template <class Isa>
  static typename Isa::V step(typename Isa::V a, typename Isa::V b) {
    return a + b;
  }
  static double step(double a, double b) { return a + b; }
};

struct Max {  // what is not a number stays
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  template <class Isa>
  static typename Isa::V step(typename Isa::V a, typename Isa::V b) {
    return Isa::select(Isa::equal(a, a), Isa::max(a, b), a);
  }
  static double step(double a, double b) { return a > b || a != a ? a : b; }
};

// Of n elements that lie one behind the other.
template <class Isa, class Fold>
double vreduce_row(const float* x, int64_t n) {
  constexpr int64_t kBlock = 4096, kLanes = Isa::kLanes;
  double total = Fold::kStart;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const float *p = x + begin, *end = x + std::min(n, begin + kBlock);
    auto a = Isa::all(Fold::kStart), b = a, c = a, d = a;
    for (; p + 4 * kLanes <= end; p += 4 * kLanes) {
      a = Fold::template step<Isa>(a, Isa::load(p));
      b = Fold::template step<Isa>(b, Isa::load(p + kLanes));
      c = Fold::template step<Isa>(c, Isa::load(p + 2 * kLanes));
      d = Fold::template step<Isa>(d, Isa::load(p + 3 * kLanes));
    }
    a = Fold::template step<Isa>(Fold::template step<Isa>(a, b), Fold::template step<Isa>(c, d));
    over<Isa>(end - p, [&](int64_t i, int lanes) {
      a = Fold::template step<Isa>(a, Isa::first(Isa::load(p + i, lanes), lanes, Isa::all(Fold::kStart)));
    });
    float lane[kLanes];
    Isa::store(lane, a);
    for (float one : lane) total = Fold::step(total, one);
  }
  return total;
}

// Of `rows` rows that are `stride` apart, column by column: W vectors of columns, of which `lanes` columns when W is 1.
template <class Isa, class Fold, int W>
void vreduce_columns(const float* x, int64_t rows, int64_t stride, int lanes, float scale, float* y) {
  constexpr int64_t kBlock = 128;
  typename Isa::V total[W];
  for (int w = 0; w < W; ++w) total[w] = Isa::all(Fold::kStart);
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    typename Isa::V part[W];
    for (int w = 0; w < W; ++w) part[w] = Isa::all(Fold::kStart);
    for (int64_t i = begin; i < std::min(rows, begin + kBlock); ++i) {
      for (int w = 0; w < W; ++w) {
        const float* p = x + i * stride + w * Isa::kLanes;
        part[w] = Fold::template step<Isa>(part[w], Isa::load(p, W == 1 ? lanes : Isa::kLanes));
      }
    }
    for (int w = 0; w < W; ++w) total[w] = Fold::template step<Isa>(total[w], part[w]);
  }
  for (int w = 0; w < W; ++w) {
    Isa::store(y + w * Isa::kLanes, total[w] * scale, W == 1 ? lanes : Isa::kLanes);
  }
}

// Fills y and returns true where the axes make one row, or one column, of each result. `mean`: divided by how many.
template <class Isa, class Fold, typename Attrs>
bool vreduce(const Call<Attrs>& call, bool mean = false) {
  const float* x = call.in[0].f32();
  float* y = call.y().f32();
  Walk kept, dropped;
  split_axes(call.in[0], call.attrs.axes, &kept, &dropped);
  if (dropped.rank != 1 || dropped.size[0] == 0 || call.y().elements() == 0) return false;
  const int64_t n = dropped.size[0];
  const float scale = mean ? 1.0f / static_cast<float>(n) : 1.0f;
  if (dropped.from[0] == 1) {
    parallel_for(call.context.pool, call.y().elements(), (1 << 14) / n, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<float>(vreduce_row<Isa, Fold>(x + i * n, n) * scale);
    });
    return true;
  }
  const int64_t columns = dropped.from[0];  // they are dense: the axis behind the dropped one is kept
  constexpr int64_t kWide = 4 * Isa::kLanes;
  const int64_t wide = columns / kWide, narrow = (columns % kWide + Isa::kLanes - 1) / Isa::kLanes,
                strips = wide + narrow;
  const int64_t outer = call.y().elements() / columns;
  parallel_for(call.context.pool, outer * strips, (1 << 12) / n, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t strip = i % strips,
                    first = strip < wide ? strip * kWide : wide * kWide + (strip - wide) * Isa::kLanes;
      const float* from = x + i / strips * n * columns + first;
      float* to = y + i / strips * columns + first;
      if (strip < wide) {
        vreduce_columns<Isa, Fold, 4>(from, n, columns, Isa::kLanes, scale, to);
      } else {
        const int lanes = static_cast<int>(std::min<int64_t>(Isa::kLanes, columns - first));
        vreduce_columns<Isa, Fold, 1>(from, n, columns, lanes, scale, to);
      }
    }
  });
  return true;
}

}  // namespace lite
