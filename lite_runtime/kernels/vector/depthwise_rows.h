#pragma once

#include <algorithm>

#include "kernels/activation.h"
#include "kernels/vector/math.h"
#include "kernels/windows.h"

// Rows of a depthwise convolution whose windows are 3 or 5 wide, for one vector of channels after the other: a pixel is
// loaded once for all results of a chunk that see it, so there are fewer loads than multiplications.

namespace lite {

// A row of windows [n,p]: the lines that they see, and what becomes of their results.
struct DepthwiseRow {
  const Axis& w;
  int channels;
  const float* x;        // the first line that they see inside of the image, its first pixel
  int64_t line;          // floats from one such line to the next
  const float* weights;  // of the first such line's places [r,s,c]
  int lines;
  const float* bias;  // or null
  float* y;
  Limits limits;
};

template <class Isa, int S, int Stride>
class DepthwiseChunks {
 public:
  static constexpr int kTogether = 8;  // results of a chunk

  static void run(const DepthwiseRow& row) {
    const int inner = std::min((row.w.pad + Stride - 1) / Stride, row.w.count);  // results that see the left padding
    const int behind = row.w.length + row.w.pad - S;                             // the last start without padding
    const int outer = std::clamp(behind >= 0 ? behind / Stride + 1 : 0, inner, row.w.count);
    for (int from = 0; from < row.channels; from += Isa::kLanes) {
      // Vectors and chunks overlap rather than be short: what is computed twice is the same.
      const int c = std::min(from, row.channels - Isa::kLanes);
      int q = 0;
      for (; q + kTogether <= row.w.count; q += kTogether) chunk(row, c, q, inner, outer);
      if (q < row.w.count) chunk(row, c, std::max(row.w.count - kTogether, 0), inner, outer);
    }
  }

 private:
  using V = typename Isa::V;
  static constexpr int kSeen = (kTogether - 1) * Stride + S;  // pixels of a line

  static void chunk(const DepthwiseRow& row, int c, int q, int inner, int outer) {
    inner <= q&& q + kTogether <= outer ? sums<false>(row, c, q) : sums<true>(row, c, q);
  }

  // Results [q, q + kTogether) of channels [c, c + kLanes). With a border, pixels beyond the image are zeros, and
  // results behind the last one are not stored.
  template <bool kBorder>
  static void sums(const DepthwiseRow& row, int c, int q) {
    V sum[kTogether];
    const V start = row.bias != nullptr ? Isa::load(row.bias + c) : Isa::all(0.0f);
#pragma GCC unroll 8
    for (int i = 0; i < kTogether; ++i) sum[i] = start;
    const int first = q * Stride - row.w.pad, length = row.w.length;
    const float *x = row.x + int64_t{first} * row.channels + c, *w = row.weights + c;
    for (int i = 0; i < row.lines; ++i, x += row.line, w += int64_t{S} * row.channels) {
      V weight[S];
#pragma GCC unroll 8
      for (int s = 0; s < S; ++s) weight[s] = Isa::load(w + int64_t{s} * row.channels);
      const float* from = x;
#pragma GCC unroll 32
      for (int j = 0; j < kSeen; ++j, from += row.channels) {
        const bool outside = kBorder && (first + j < 0 || first + j >= length);
        const V pixel = outside ? Isa::all(0.0f) : Isa::load(from);
#pragma GCC unroll 8
        for (int s = j % Stride; s < S; s += Stride) {
          const int to = (j - s) / Stride;
          if (j >= s && to < kTogether) sum[to] = Isa::fma(pixel, weight[s], sum[to]);
        }
      }
    }
    const V low = Isa::all(row.limits.low), high = Isa::all(row.limits.high);
    float* y = row.y + int64_t{q} * row.channels + c;
#pragma GCC unroll 8
    for (int i = 0; i < kTogether; ++i, y += row.channels) {
      if (kBorder && q + i >= row.w.count) break;
      Isa::store(y, Isa::min(high, Isa::max(low, sum[i])));
    }
  }
};

// What runs rows of such windows, or null for others.
using DepthwiseRows = void (*)(const DepthwiseRow&);
template <class Isa>
DepthwiseRows depthwise_rows(const Axis& w, int channels) {
  if (w.dilation != 1 || channels < Isa::kLanes) return nullptr;
  if (w.size == 3 && w.stride == 1) return DepthwiseChunks<Isa, 3, 1>::run;
  if (w.size == 3 && w.stride == 2) return DepthwiseChunks<Isa, 3, 2>::run;
  if (w.size == 5 && w.stride == 1) return DepthwiseChunks<Isa, 5, 1>::run;
  if (w.size == 5 && w.stride == 2) return DepthwiseChunks<Isa, 5, 2>::run;
  return nullptr;
}

}  // namespace lite
