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
  static void run(const DepthwiseRow& row) {
    if (fits<kNarrow>(row.w) && !fits<kWide>(row.w)) return in_chunks<kNarrow>(row, sums<kNarrow, Border::ends>);
    if (!fits<kWide>(row.w)) return in_chunks<1>(row, sums<1, Border::anywhere>);
    const int inner = (row.w.pad + Stride - 1) / Stride;  // results that see the left padding
    const int last = row.w.length + row.w.pad - S;        // the last start without padding
    const int outer = last < 0 ? 0 : last / Stride + 1;
    in_chunks<kWide>(row, [=](const DepthwiseRow& part, int c, int q) {
      inner <= q&& q + kWide <= outer ? sums<kWide, Border::none>(part, c, q) : sums<kWide, Border::ends>(part, c, q);
    });
  }

 private:
  using V = typename Isa::V;
  enum class Border { none, ends, anywhere };   // which pixels may lie outside of the image
  static constexpr int kWide = 8, kNarrow = 6;  // results of a chunk

  // Pixels at the end of a chunk, of which some may lie outside of the image.
  static constexpr int ends(int together) { return together == kWide ? S - 1 : S; }

  // Whether no others do, but for S - 1 at its beginning.
  template <int Together>
  static bool fits(const Axis& w) {
    const int seen = (std::max(w.count, Together) - 1) * Stride + S;
    return w.pad < S && seen - ends(Together) <= w.pad + w.length;
  }

  // Vectors and chunks overlap rather than be short: what is computed twice is the same.
  template <int Together, typename Sums>
  static void in_chunks(const DepthwiseRow& row, const Sums& sums) {
    const int last = std::max(row.w.count - Together, 0);
    for (int from = 0; from < row.channels; from += Isa::kLanes) {
      const int c = std::min(from, row.channels - Isa::kLanes);
      for (int q = 0; q < row.w.count; q += Together) sums(row, c, std::min(q, last));
    }
  }

  // Results [q, q + Together) of channels [c, c + kLanes). Pixels beyond the image add nothing, and results behind the
  // last one are not stored.
  template <int Together, Border kBorder>
  static void sums(const DepthwiseRow& row, int c, int q) {
    constexpr int kSeen = (Together - 1) * Stride + S;  // pixels of a line
    constexpr bool kAnywhere = kBorder == Border::anywhere, kEnds = kBorder == Border::ends;
    const int channels = row.channels, left = row.w.count - q;  // copies that what is stored cannot be in
    V sum[Together];
    const V start = row.bias != nullptr ? Isa::load(row.bias + c) : Isa::all(0.0f);
#pragma GCC unroll 8
    for (int i = 0; i < Together; ++i) sum[i] = start;
    const int first = q * Stride - row.w.pad, behind = row.w.length - first;
    const float *x = row.x + int64_t{first} * channels + c, *w = row.weights + c;
    for (int i = 0; i < row.lines; ++i, x += row.line, w += int64_t{S} * channels) {
      V weight[S];
#pragma GCC unroll 8
      for (int s = 0; s < S; ++s) weight[s] = Isa::load(w + int64_t{s} * channels);
      const float* from = x;
#pragma GCC unroll 32
      for (int j = 0; j < kSeen; ++j, from += channels) {
        if ((kAnywhere || (kEnds && j < S - 1)) && first + j < 0) continue;
        if ((kAnywhere || (kEnds && j >= kSeen - ends(Together))) && j >= behind) break;
        const V pixel = Isa::load_once(from);
#pragma GCC unroll 8
        for (int s = j % Stride; s < S; s += Stride) {
          const int to = (j - s) / Stride;
          if (j >= s && to < Together) sum[to] = Isa::fma(pixel, weight[s], sum[to]);
        }
      }
    }
    const V low = Isa::all(row.limits.low), high = Isa::all(row.limits.high);
    float* y = row.y + int64_t{q} * channels + c;
#pragma GCC unroll 8
    for (int i = 0; i < Together; ++i, y += channels) {
      if ((kAnywhere || (kEnds && i >= Together - ends(Together))) && i >= left) break;
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
