#pragma once

#include <algorithm>
#include <type_traits>

#include "core/kernel.h"
#include "kernels/vector/depthwise_rows.h"
#include "kernels/vector/math.h"
#include "kernels/vector/share.h"
#include "kernels/windows.h"

// Depthwise convolution and its gradients, vectors of channels, for any instruction set.

namespace lite {

// What some places of a window add to a result: x w, channel by channel.
struct Products {
  static constexpr int kMost = 32;
  const float* w[kMost];
  int64_t x[kMost];  // offsets from a position of the image
  int n = 0;

  void add(int64_t x_offset, const float* weight) {
    x[n] = x_offset;
    w[n++] = weight;
  }
};

// The products of the parts of a row, kept from one row to the next while both see the same places: those from `first`
// to `last` along the other axis.
class KeptProducts {
 public:
  void start_row(int first, int last) {
    if (first != first_ || last != last_) ready_ = 0;
    first_ = first, last_ = last, next_ = 0;
  }

  // Those of the row's next part, which `fill(products)` finds.
  template <typename Fill>
  const Products& next(const Fill& fill) {
    Products& products = parts_[std::min(next_, kMost - 1)];
    if (next_ >= ready_) {
      products.n = 0;
      fill(products);
      if (next_ < kMost - 1) ready_ = next_ + 1;
    }
    ++next_;
    return products;
  }

 private:
  static constexpr int kMost = 8;  // the last one is not kept
  Products parts_[kMost];
  int first_ = -1, last_ = -1, ready_ = 0, next_ = 0;
};

// y[q y_step][c] = start[q start_step][c] + sum of x[q x_step + offset][c] w[c] for Q positions; start may be null.
template <class Isa, int Q>
inline void add_products(const Products& products, const float* x, int64_t x_step, const float* start,
                         int64_t start_step, int channels, float* y, int64_t y_step) {
  using V = typename Isa::V;
  constexpr int kVectors = Q == 1 ? 4 : 2;  // accumulators enough that none waits for itself
  int c = 0;
  for (; c + kVectors * Isa::kLanes <= channels; c += kVectors * Isa::kLanes) {
    V sum[Q][kVectors];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        sum[q][v] = start != nullptr ? Isa::load(start + q * start_step + c + v * Isa::kLanes) : Isa::all(0.0f);
      }
    }
    for (int p = 0; p < products.n; ++p) {
      const float *from = x + products.x[p] + c, *w = products.w[p] + c;
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const V weight = Isa::load(w + v * Isa::kLanes);
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) {
          sum[q][v] = Isa::fma(Isa::load(from + q * x_step + v * Isa::kLanes), weight, sum[q][v]);
        }
      }
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) Isa::store(y + q * y_step + c + v * Isa::kLanes, sum[q][v]);
    }
  }
  over<Isa>(channels - c, [&](int64_t rest, int lanes) {
    const int64_t at = c + rest;
    V sum[Q];
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) {
      sum[q] = start != nullptr ? Isa::load(start + q * start_step + at, lanes) : Isa::all(0.0f);
    }
    for (int p = 0; p < products.n; ++p) {
      const V w = Isa::load(products.w[p] + at, lanes);
#pragma GCC unroll 4
      for (int q = 0; q < Q; ++q) sum[q] = Isa::fma(Isa::load(x + products.x[p] + q * x_step + at, lanes), w, sum[q]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < Q; ++q) Isa::store(y + q * y_step + at, sum[q], lanes);
  });
}

// Positions of a row of results: position q is at y + q y_step, and its windows look at x + q x_step + offsets.
template <class Isa>
struct Row {
  const float* x;
  float* y;
  int64_t x_step, y_step;
  int channels;

  // The results [begin, end), all of which see the places that `for_places(add)` names by add(offset, weight). `kept`
  // is given where those always fit one list; else few places are taken at a time, whatever their number.
  template <typename ForPlaces>
  void sum(int begin, int end, const float* bias, KeptProducts* kept, ForPlaces for_places) const {
    if (kept != nullptr) {
      const Products& products = kept->next(
          [&](Products& list) { for_places([&](int64_t offset, const float* weight) { list.add(offset, weight); }); });
      return add(products, begin, end, bias, false);
    }
    Products products;
    bool started = false;
    const auto flush = [&] {
      add(products, begin, end, bias, started);
      products.n = 0;
      started = true;
    };
    for_places([&](int64_t offset, const float* weight) {
      if (products.n == Products::kMost) flush();
      products.add(offset, weight);
    });
    flush();
  }

 private:
  void add(const Products& products, int begin, int end, const float* bias, bool started) const {
    const auto some = [&](auto count, int q) {
      float* to = y + q * y_step;
      add_products<Isa, decltype(count)::value>(products, x + q * x_step, x_step, started ? to : bias,
                                                started ? y_step : 0, channels, to, y_step);
    };
    int q = begin;
    for (; q + 4 <= end; q += 4) some(std::integral_constant<int, 4>(), q);
    if (end - q == 3) return some(std::integral_constant<int, 3>(), q);
    if (end - q == 2) return some(std::integral_constant<int, 2>(), q);
    if (end - q == 1) some(std::integral_constant<int, 1>(), q);
  }
};

// A row of results of which [inner, outer) see all places of a window along the row.
template <typename Positions>
inline void border_and_inside(int count, int inner, int outer, Positions positions) {
  inner = std::clamp(inner, 0, count);
  outer = std::clamp(outer, inner, count);
  for (int q = 0; q < inner; ++q) positions(q, q + 1);
  if (inner < outer) positions(inner, outer);
  for (int q = outer; q < count; ++q) positions(q, q + 1);
}

// row_of(row, kept) for all rows; `kept` is null where windows have too many places.
template <typename RowOf>
void for_depthwise_rows(ThreadPool* pool, const Windows& at, int64_t rows, int64_t cost, const RowOf& row_of) {
  const bool few_places = int64_t{at.h.size} * at.w.size <= Products::kMost;
  parallel_for(pool, rows, share(rows, cost), [&](int64_t begin, int64_t end) {
    KeptProducts kept;
    for (int64_t row = begin; row < end; ++row) row_of(row, few_places ? &kept : nullptr);
  });
}

template <class Isa>
Status vector_depthwise_conv2d(const Call<depthwise_conv2d_attrs>& call) {
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const float* bias = call.optional(2) != nullptr ? call.optional(2)->f32() : nullptr;
  const Windows at = windows_of(x, w.dim(0), w.dim(1), y, call.attrs);
  const int channels = y.dim(3);
  const int64_t rows = int64_t{at.n} * at.h.count, cost = int64_t{at.w.count} * channels * at.h.size * at.w.size;
  const int inner = (at.w.pad + at.w.stride - 1) / at.w.stride;
  const int room = at.w.length + at.w.pad - 1 - (at.w.size - 1) * at.w.dilation;  // for the last window's start
  const int outer = room >= 0 ? room / at.w.stride + 1 : 0;
  const DepthwiseRows rows_at_once = depthwise_rows<Isa>(at.w, channels);
  const bool limited = rows_at_once != nullptr && only_limits(call.attrs.activation);
  const auto row_of = [&](int64_t row, KeptProducts* kept) {
    const int top = at.h.position(static_cast<int>(row % at.h.count), 0);
    const int i0 = at.h.first_inside(top), i1 = at.h.behind_inside(top);
    const float* lines = x.f32() + (row / at.h.count * at.h.length + top) * at.w.length * channels;
    float* to = y.f32() + row * at.w.count * channels;
    const int64_t line_step = int64_t{at.h.dilation} * at.w.length * channels;
    if (rows_at_once != nullptr) {
      rows_at_once({at.w, channels, lines + i0 * line_step, line_step, w.f32() + int64_t{i0} * at.w.size * channels,
                    i1 - i0, bias, to, limits_of(call.attrs.activation)});
      if (!limited) activate_row<Isa>(call.attrs.activation, int64_t{at.w.count} * channels, to);
      return;
    }
    const Row<Isa> line = {lines - int64_t{at.w.pad} * channels, to, int64_t{at.w.stride} * channels, channels,
                           channels};
    if (kept != nullptr) kept->start_row(i0, i1);
    border_and_inside(at.w.count, inner, outer, [&](int begin, int end) {
      const int left = at.w.position(begin, 0), j0 = at.w.first_inside(left), j1 = at.w.behind_inside(left);
      line.sum(begin, end, bias, kept, [&](auto add) {
        for (int i = i0; i < i1; ++i) {
          for (int j = j0; j < j1; ++j) {
            add(i * line_step + int64_t{j} * at.w.dilation * channels,
                w.f32() + (int64_t{i} * at.w.size + j) * channels);
          }
        }
      });
    });
    if (call.attrs.activation == Activation::none) return;
    activate_row<Isa>(call.attrs.activation, int64_t{at.w.count} * channels, to);
  };
  for_depthwise_rows(call.context.pool, at, rows, cost, row_of);
  return Status::kOk;
}

template <class Isa>
Status vector_depthwise_conv2d_dx(const Call<depthwise_conv2d_dx_attrs>& call) {
  const Tensor &g = call.in[0], &w = call.in[1], &y = call.y();
  const Windows at = windows_of(y, w.dim(0), w.dim(1), g, call.attrs);
  const int channels = y.dim(3);
  const int64_t rows = int64_t{at.n} * at.h.length, cost = int64_t{at.w.length} * channels * at.h.size * at.w.size;
  const auto row_of = [&](int64_t row, KeptProducts* kept) {
    const Places rows_seen(at.h, static_cast<int>(row % at.h.length) % at.h.stride);
    const int first_p = rows_seen.window + static_cast<int>(row % at.h.length) / at.h.stride;  // of the last place
    const auto seen = [&](int i) { return first_p + i * rows_seen.windows; };
    int i0 = 0, i1 = rows_seen.count;
    while (i0 < i1 && seen(i0) < 0) ++i0;
    while (i0 < i1 && seen(i1 - 1) >= at.h.count) --i1;
    const float* lines = g.f32() + (row / at.h.length * at.h.count + first_p) * at.w.count * channels;
    if (kept != nullptr) kept->start_row(rows_seen.last * Products::kMost + i0, i1);
    float* to = y.f32() + row * at.w.length * channels;
    // Every stride-th pixel of a row is seen by the same places of windows.
    for (int phase = 0; phase < std::min(at.w.stride, at.w.length); ++phase) {
      const Places places(at.w, phase);
      const Row<Isa> line = {lines, to + int64_t{phase} * channels, channels, int64_t{at.w.stride} * channels,
                             channels};
      const int pixels = (at.w.length - phase - 1) / at.w.stride + 1;
      const int last = places.window + (places.count - 1) * places.windows;
      border_and_inside(pixels, -places.window, at.w.count - last, [&](int begin, int end) {
        line.sum(begin, end, nullptr, kept, [&](auto add) {
          for (int i = i0; i < i1; ++i) {
            for (int j = 0; j < places.count; ++j) {
              const int q = places.window + j * places.windows;  // for the first pixel
              if (begin + q < 0 || begin + q >= at.w.count) continue;
              add((int64_t{i} * rows_seen.windows * at.w.count + q) * channels,
                  w.f32() + (int64_t{rows_seen.place(i)} * at.w.size + places.place(j)) * channels);
            }
          }
        });
      });
    }
  };
  for_depthwise_rows(call.context.pool, at, rows, cost, row_of);
  return Status::kOk;
}

// One row of windows' part of dw at place j: y[c] += sum over q of x[column of q][c] g[q][c], for up to 4 vectors.
template <class Isa>
inline void add_row_products(const Axis& w, int j, const float* x, const float* g, int channels, int count, float* y) {
  using V = typename Isa::V;
  const int shift = w.pad - j * w.dilation;  // column = q stride - shift
  const int q0 = shift > 0 ? (shift + w.stride - 1) / w.stride : 0;
  const int q1 = w.length + shift > 0 ? std::min(w.count, (w.length + shift - 1) / w.stride + 1) : 0;
  const int64_t step = int64_t{w.stride} * channels;
  const float* from = x + (int64_t{q0} * w.stride - shift) * channels;
  if (count == 4 * Isa::kLanes) {
    V sum[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum[i] = Isa::load(y + i * Isa::kLanes);
    for (int q = q0; q < q1; ++q, from += step) {
      const float* slope = g + int64_t{q} * channels;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
        sum[i] = Isa::fma(Isa::load(from + i * Isa::kLanes), Isa::load(slope + i * Isa::kLanes), sum[i]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) Isa::store(y + i * Isa::kLanes, sum[i]);
    return;
  }
  over<Isa>(count, [&](int64_t c, int lanes) {
    V sum = Isa::load(y + c, lanes);
    const float* next = from + c;
    for (int q = q0; q < q1; ++q, next += step) {
      sum = Isa::fma(Isa::load(next, lanes), Isa::load(g + int64_t{q} * channels + c, lanes), sum);
    }
    Isa::store(y + c, sum, lanes);
  });
}

// A thread takes some channels of all images: no sum is split.
template <class Isa>
Status vector_depthwise_conv2d_dw(const Call<depthwise_conv2d_dw_attrs>& call) {
  constexpr int kTogether = 4 * Isa::kLanes;
  const Tensor &x = call.in[0], &g = call.in[1], &y = call.y();
  const Windows at = windows_of(x, y.dim(0), y.dim(1), g, call.attrs);
  const int channels = y.dim(2);
  const int64_t blocks = (channels + kTogether - 1) / kTogether, places = int64_t{at.h.size} * at.w.size;
  const int64_t rows = int64_t{at.n} * at.h.count;
  parallel_for(call.context.pool, blocks, share(blocks, rows * at.w.count * places * kTogether),
               [&](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) {
                   const int c = static_cast<int>(block) * kTogether, count = std::min(kTogether, channels - c);
                   for (int64_t i = 0; i < places; ++i) std::fill_n(y.f32() + i * channels + c, count, 0.0f);
                   for (int64_t row = 0; row < rows; ++row) {
                     const float* slope = g.f32() + row * at.w.count * channels + c;
                     const int top = at.h.position(static_cast<int>(row % at.h.count), 0);
                     for (int i = at.h.first_inside(top); i < at.h.behind_inside(top); ++i) {
                       const int64_t line = row / at.h.count * at.h.length + top + i * at.h.dilation;
                       for (int j = 0; j < at.w.size; ++j) {
                         add_row_products<Isa>(at.w, j, x.f32() + line * at.w.length * channels + c, slope, channels,
                                               count, y.f32() + (int64_t{i} * at.w.size + j) * channels + c);
                       }
                     }
                   }
                 }
               });
  return Status::kOk;
}

}  // namespace lite
