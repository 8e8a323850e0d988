#pragma once

#include <algorithm>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/math.h"

// Reductions for any instruction set: of rows where the last axis is reduced, else of columns. The order of additions
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

struct Min {  // so here
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  template <class Isa>
  static typename Isa::V step(typename Isa::V a, typename Isa::V b) {
    return Isa::select(Isa::equal(a, a), Isa::min(a, b), a);
  }
  static double step(double a, double b) { return a < b || a != a ? a : b; }
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

// Of `n` rows that are `stride` apart, at each of `steps` steps of `outer`, column by column: W vectors of columns, of
// which `lanes` columns when W is 1.
template <class Isa, class Fold, int W>
void vreduce_columns(const float* x, const Walk& outer, int64_t steps, int64_t n, int64_t stride, int lanes,
                     float scale, float* y) {
  constexpr int64_t kBlock = 128;
  typename Isa::V total[W];
  for (int w = 0; w < W; ++w) total[w] = Isa::all(Fold::kStart);
  for (Place place(outer, 0); steps > 0; --steps, place.advance(outer)) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      typename Isa::V part[W];
      for (int w = 0; w < W; ++w) part[w] = Isa::all(Fold::kStart);
      for (int64_t i = begin; i < std::min(n, begin + kBlock); ++i) {
        const float* row = x + place.from + i * stride;
        for (int w = 0; w < W; ++w) {
          part[w] = Fold::template step<Isa>(part[w], Isa::load(row + w * Isa::kLanes, W == 1 ? lanes : Isa::kLanes));
        }
      }
      for (int w = 0; w < W; ++w) total[w] = Fold::template step<Isa>(total[w], part[w]);
    }
  }
  for (int w = 0; w < W; ++w) {
    Isa::store(y + w * Isa::kLanes, total[w] * scale, W == 1 ? lanes : Isa::kLanes);
  }
}

// y[i] = the fold of the rows of n elements at every step of `outer` from step i of `kept` on
template <class Isa, class Fold>
void vreduce_rows(ThreadPool* pool, const float* x, const Walk& kept, const Walk& outer, int64_t n, int64_t count,
                  float scale, const Tensor& y) {
  parallel_for(pool, y.elements(), (1 << 14) / count, [=, &kept, &outer](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double total;
      if (outer.rank == 0) {  // only the last axes are reduced: row i is the i-th
        total = vreduce_row<Isa, Fold>(x + i * n, n);
      } else {
        total = Fold::kStart;
        Place row(outer, 0);
        const float* from = x + Place(kept, i).from;
        for (int64_t rows = count / n; rows > 0; --rows, row.advance(outer)) {
          total = Fold::step(total, vreduce_row<Isa, Fold>(from + row.from, n));
        }
      }
      y.f32()[i] = static_cast<float>(total * scale);
    }
  });
}

// Fills y and returns true, but where nothing is reduced, or something of no elements. `mean`: divided by how many.
template <class Isa, class Fold>
bool vreduce(ThreadPool* pool, const Tensor& in, const Ints& axes, const Tensor& y, bool mean = false) {
  const float* x = in.f32();
  Walk kept, outer;
  split_axes(in, axes, &kept, &outer);
  if (outer.rank == 0 || in.elements() == 0) return false;
  const int inner = --outer.rank;
  const int64_t n = outer.size[inner], stride = outer.from[inner], count = in.elements() / y.elements();
  const float scale = mean ? 1.0f / static_cast<float>(count) : 1.0f;
  if (stride == 1) {
    vreduce_rows<Isa, Fold>(pool, x, kept, outer, n, count, scale, y);
    return true;
  }
  const int64_t columns = kept.size[--kept.rank];  // they are dense: the last axis is kept
  constexpr int64_t kStrip = 8 * Isa::kLanes;
  const int64_t strips = (columns + kStrip - 1) / kStrip, parts = y.elements() / columns * strips;
  parallel_for(pool, parts, (1 << 12) / count, [=, &kept, &outer](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Place place(kept, i / strips);
      const int64_t first = i % strips * kStrip, width = std::min(kStrip, columns - first);
      const float* from = x + place.from + first;
      float* to = y.f32() + i / strips * columns + first;
      if (width == kStrip) {
        vreduce_columns<Isa, Fold, 8>(from, outer, count / n, n, stride, Isa::kLanes, scale, to);
        continue;
      }
      int64_t done = 0;
      for (; done + 2 * Isa::kLanes <= width; done += 2 * Isa::kLanes) {
        vreduce_columns<Isa, Fold, 2>(from + done, outer, count / n, n, stride, Isa::kLanes, scale, to + done);
      }
      for (; done < width; done += Isa::kLanes) {
        const int lanes = static_cast<int>(std::min<int64_t>(Isa::kLanes, width - done));
        vreduce_columns<Isa, Fold, 1>(from + done, outer, count / n, n, stride, lanes, scale, to + done);
      }
    }
  });
  return true;
}

}  // namespace lite
