#pragma once

#include "kernels/gemm/sources.h"
#include "kernels/windows.h"

// The matrices of a convolution, gathered block by block from the images: no matrix of patches is ever whole.

namespace lite {

// A position of the grid of windows, counted on row by row.
struct GridPosition {
  int n, p, q;

  GridPosition(const Windows& at, int64_t index)
      : n(static_cast<int>(index / at.w.count / at.h.count)),
        p(static_cast<int>(index / at.w.count % at.h.count)),
        q(static_cast<int>(index % at.w.count)) {}

  void next(const Windows& at) {
    if (++q < at.w.count) return;
    q = 0;
    if (++p < at.h.count) return;
    p = 0;
    ++n;
  }
};

// Whether the windows are the pixels, in order.
inline bool are_pixels(const Windows& at) {
  const auto all = [](const Axis& axis) {
    return axis.size == 1 && axis.stride == 1 && axis.pad == 0 && axis.count == axis.length;
  };
  return all(at.h) && all(at.w);
}

// Places on `length` positions of one axis: `count` of them from `start` on, `step` apart.
struct Steps {
  int start, step, count, length;

  int position(int64_t i) const { return start + static_cast<int>(i) * step; }
  bool inside(int position) const { return 0 <= position && position < length; }
  bool all_inside() const { return start >= 0 && position(count - 1) < length; }
};

// Elements [k, k + depth) of the matrix row [h places, w places, group] of an image whose pixels hold `channels`
// numbers, the wanted ones first; zeros for places beyond the image. Where whole neighbouring pixels are wanted, a row
// of places is one run of memory.
template <class Isa>
inline void gather(const float* image, const Steps& h, const Steps& w, int channels, int group, int64_t k,
                   int64_t depth, float* to) {
  const bool runs = w.step == 1 && group == channels;
  const int64_t run = runs ? int64_t{w.count} * group : group, end = k + depth;
  if (runs && k == 0 && depth == h.count * run && h.all_inside() &&
      w.all_inside()) {  // most windows, when they are small
    const float* from = image + (int64_t{h.start} * w.length + w.start) * channels;
    for (int i = 0; i < h.count; ++i)
      copy_ahead<Isa>(from + int64_t{i} * h.step * w.length * channels, run, to + i * run);
    return;
  }
  for (int64_t i = k / run; i * run < end; ++i) {
    const int row = h.position(runs ? i : i / w.count), column = w.position(runs ? 0 : i % w.count);
    // Of the run, [begin, stop) is wanted and [left, right) lies inside the image.
    const int64_t begin = std::max(k - i * run, int64_t{0}), stop = std::min(end - i * run, run);
    int64_t left = stop, right = stop;
    if (h.inside(row) && (runs || w.inside(column))) {
      const int64_t first = std::max(-int64_t{column}, int64_t{0}) * group;
      left = std::clamp(first, begin, stop);
      right = runs ? std::clamp((int64_t{w.length} - column) * group, left, stop) : stop;
    }
    if (left > begin) zero_ahead<Isa>(left - begin, to);
    if (right > left) {
      const float* start = image + (int64_t{row} * w.length + column) * channels;
      copy_ahead<Isa>(start + left, right - left, to + (left - begin));
    }
    if (stop > right) zero_ahead<Isa>(stop - right, to + (right - begin));
    to += stop - begin;
  }
}

// Images [n,h,w,channels], of which a group of a convolution sees `group` channels from `first` on.
struct Images {
  const float* base;
  Windows at;
  int channels, first, group;

  const float* pixel(int n, int row, int column) const {
    return base + ((int64_t{n} * at.h.length + row) * at.w.length + column) * channels + first;
  }
};

// A of conv2d: row (n,p,q) is the patch [r,s,c] that window p, q sees.
struct PatchesA {
  Images images;

  template <class Isa, int kBlock>
  Apart block(int64_t m, int count, int64_t k, int64_t depth, float* gathered, const float** from) const {
    const Axis &h = images.at.h, &w = images.at.w;
    GridPosition g(images.at, m);
    for (int r = 0; r < count; ++r, g.next(images.at)) {
      from[r] = gathered + r * depth;
      gather<Isa>(images.pixel(g.n, 0, 0), {h.position(g.p, 0), h.dilation, h.size, h.length},
                  {w.position(g.q, 0), w.dilation, w.size, w.length}, images.channels, images.group, k, depth,
                  gathered + r * depth);
    }
    return {1};
  }
};

// B of conv2d_dw: row (n,p,q) is the patch [r,s,c] that window p, q sees.
struct PatchesB {
  Images images;
  int64_t first;  // the row that is row 0

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int count, int width, float* to) const {
    using Isa = typename Tile::Isa;
    const Windows& at = images.at;
    struct Piece {  // of the panel: channels of one place of the window
      int i, j, channel, length;
    } pieces[Tile::kMostColumns];
    int n_pieces = 0;
    for (int done = 0; done < count;) {
      const int64_t place = (column + done) / images.group;
      const int channel = static_cast<int>((column + done) % images.group);
      const int length = std::min(count - done, images.group - channel);
      pieces[n_pieces++] = {static_cast<int>(place / at.w.size), static_cast<int>(place % at.w.size), channel, length};
      done += length;
    }
    GridPosition g(at, first + k);
    float whole[Tile::kMostColumns + Isa::kLanes] = {};
    for (int64_t row = 0; row < depth; ++row, g.next(at), to += width) {
      float* next = whole;
      for (int p = 0; p < n_pieces; ++p) {
        const Piece& piece = pieces[p];
        const int y = at.h.position(g.p, piece.i), x = at.w.position(g.q, piece.j);
        if (at.h.inside(y) && at.w.inside(x)) {
          copy_ahead<Isa>(images.pixel(g.n, y, x) + piece.channel, piece.length, next);
        } else {
          zero_ahead<Isa>(piece.length, next);
        }
        next += piece.length;
      }
      panel_row<Isa>(whole, count, width, to);
    }
  }
};

// The pixels whose row is `row`, and whose column is `column`, modulo the strides: all of them are seen by the same
// places of windows, so that the gradient of the image is one product for each phase, without zeros from the strides.
struct Phase {
  Windows at;
  int row, column, rows, columns;
  Places h, w;

  Phase(const Windows& windows, int row_, int column_)
      : at(windows),
        row(row_),
        column(column_),
        rows((at.h.length - row + at.h.stride - 1) / at.h.stride),
        columns((at.w.length - column + at.w.stride - 1) / at.w.stride),
        h(at.h, row),
        w(at.w, column) {}

  int64_t pixels() const { return int64_t{at.n} * rows * columns; }
  int64_t places() const { return int64_t{h.count} * w.count; }

  // A of conv2d_dx is that of a convolution of [n,p,q,k]: what the windows that see a pixel pass back to it.
  Windows windows() const {
    return {at.n,
            {at.h.count, h.count, rows, 1, h.windows, -h.window},
            {at.w.count, w.count, columns, 1, w.windows, -w.window}};
  }
};

// Pixel m of a phase: image n, row `i` and column `j` of the phase.
struct PhasePixel {
  int n, i, j;

  PhasePixel(const Phase& phase, int64_t m)
      : n(static_cast<int>(m / phase.columns / phase.rows)),
        i(static_cast<int>(m / phase.columns % phase.rows)),
        j(static_cast<int>(m % phase.columns)) {}
};

// B of conv2d_dx: row (place, k) is the weight [c] of that place for result channel k.
struct PlacesB {
  const float* base;  // [k,r,s,c], from the group's first k on
  const Phase& phase;
  int group, channels;  // k of the group, c

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int count, int width, float* to) const {
    const Windows& at = phase.at;
    for (int64_t row = k; row < k + depth; ++row, to += width) {
      const int64_t place = row / group, i = phase.h.place(place / phase.w.count);
      const int64_t j = phase.w.place(place % phase.w.count);
      const float* from = base + (((row % group) * at.h.size + i) * at.w.size + j) * channels + column;
      panel_row<typename Tile::Isa>(from, count, width, to);
    }
  }
};

// C of conv2d_dx: the pixels of a phase.
struct PixelsC {
  float* base;  // [n,h,w,channels]
  const Phase& phase;
  int channels, first;

  float* row(int64_t m) const {
    const PhasePixel pixel(phase, m);
    const Windows& at = phase.at;
    const int y = phase.row + pixel.i * at.h.stride, x = phase.column + pixel.j * at.w.stride;
    return base + ((int64_t{pixel.n} * at.h.length + y) * at.w.length + x) * channels + first;
  }
};

}  // namespace lite
