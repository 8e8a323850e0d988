#pragma once

#include "core/thread_pool.h"
#include "kernels/gemm/patches.h"
#include "kernels/vector/share.h"

// Images as a micro-kernel may read them without gathering patches: with zeros around them, an element of a window lies
// equally far from the window's start in all windows. So the start of each window and one list of offsets are enough.

namespace lite {

// The lines of images that windows see: in the images themselves, or in copies that have zeros for padding.
struct Lines {
  Images images;
  int width;            // pixels from the first to the last one that windows see
  bool copied;          // some of them lie outside
  int64_t pixel, line;  // floats from one to the next

  explicit Lines(const Images& from)
      : images(from),
        width(reach(from.at.w)),
        copied(!inside(from.at.h) || !inside(from.at.w)),
        pixel(copied ? from.group : from.channels),
        line((copied ? width : from.at.w.length) * pixel) {}

  int64_t window_elements() const { return int64_t{images.at.h.size} * images.at.w.size * images.group; }

  // How far each element of a window [r,s,c] is from its start.
  void offsets(int64_t* to) const {
    const Windows& at = images.at;
    for (int64_t i = 0; i < at.h.size; ++i) {
      for (int64_t j = 0; j < at.w.size; ++j) {
        const int64_t place = i * at.h.dilation * line + j * at.w.dilation * pixel;
        for (int64_t c = 0; c < images.group; ++c) *to++ = place + c;
      }
    }
  }

  // How many lines `windows` rows of windows see at `places` of their rows.
  int count(int windows, int places) const {
    return (windows - 1) * images.at.h.stride + (places - 1) * images.at.h.dilation + 1;
  }

  // Where place `i` of the first window of row `p` lies, in image n itself.
  const float* in_place(int64_t n, int p, int i) const {
    const Windows& at = images.at;
    return images.base + images.first +
           ((n * at.h.length + at.h.position(p, i)) * at.w.length + at.w.position(0, 0)) * pixel;
  }

  // Copies `lines` lines from place `i` of row `p` on; of each, what windows [q, last] see.
  template <class Isa>
  void copy(int64_t n, int p, int i, int lines, int q, int last, float* to) const {
    const Axis &h = images.at.h, &w = images.at.w;
    const int begin = w.position(q, 0), end = w.position(last, w.size - 1) + 1;
    const int left = std::clamp(0, begin, end), right = std::clamp(w.length, left, end);
    to += int64_t{q} * w.stride * pixel;
    for (int row = h.position(p, i), stop = row + lines; row < stop; ++row, to += line) {
      if (!h.inside(row)) {
        zero<Isa>((end - begin) * pixel, to);
        continue;
      }
      zero<Isa>((left - begin) * pixel, to);
      copy_pixels<Isa>(images.pixel(static_cast<int>(n), row, left), right - left, to + (left - begin) * pixel);
      zero<Isa>((end - right) * pixel, to + (right - begin) * pixel);
    }
  }

 private:
  static int reach(const Axis& axis) { return axis.position(axis.count - 1, axis.size - 1) - axis.position(0, 0) + 1; }
  static bool inside(const Axis& axis) {
    return axis.inside(axis.position(0, 0)) && axis.inside(axis.position(axis.count - 1, axis.size - 1));
  }

  template <class Isa>
  static void zero(int64_t n, float* to) {
    over<Isa>(n, [&](int64_t k, int lanes) { Isa::store(to + k, Isa::all(0.0f), lanes); });
  }
  template <class Isa>
  void copy_pixels(const float* from, int64_t n, float* to) const {
    if (images.group == images.channels) return copy_floats<Isa>(from, n * pixel, to);
    for (int64_t k = 0; k < n; ++k) copy_floats<Isa>(from + k * images.channels, images.group, to + k * pixel);
  }
};

// A of conv2d like PatchesA, without gathering: windows start in the image, none of them in the padding.
struct WindowsA {
  Lines lines;
  const int64_t* offsets;

  template <class Isa, int kBlock>
  At block(int64_t m, int count, int64_t k, int64_t, float*, const float** from) const {
    const Windows& at = lines.images.at;
    GridPosition g(at, m);
    for (int r = 0; r < count; ++r, g.next(at)) {
      from[r] = lines.in_place(g.n, g.p, 0) + g.q * at.w.stride * lines.pixel;
    }
    return {offsets + k};
  }
};
template <>
inline constexpr bool kInPlace<WindowsA> = true;

// A group's images with zeros around them, as far as windows see.
struct PaddedImages {
  static constexpr int64_t kMost = 1 << 18;  // floats

  // How many floats they take, for windows of which some lie outside; else 0. Larger ones are not worth a copy.
  static int64_t floats(const Images& images) {
    const Lines lines(images);
    const Windows& at = images.at;
    if (!lines.copied || at.h.count == 0 || at.w.count == 0) return 0;
    const int64_t size = at.n * lines.count(at.h.count, at.h.size) * lines.line;
    return size <= kMost ? size : 0;
  }

  template <class Isa>
  static Images copy(ThreadPool* pool, const Images& images, float* to) {
    const Lines lines(images);
    Windows at = images.at;
    const int rows = lines.count(at.h.count, at.h.size);
    parallel_for(pool, at.n, share(at.n, rows * lines.line), [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        lines.copy<Isa>(n, 0, 0, rows, 0, at.w.count - 1, to + n * rows * lines.line);
      }
    });
    at.h.length = rows, at.w.length = lines.width, at.h.pad = at.w.pad = 0;
    return {to, at, images.group, 0, images.group};
  }
};

// The same where windows start in copies of the few lines that a block of them sees.
struct LinesA {
  Lines lines;
  const int64_t* offsets;

  // Whether a block of windows finds room for its lines.
  template <int kBlock, int64_t kDepth, int64_t kRoom>
  static bool fits(const Lines& lines) {
    const Windows& at = lines.images.at;
    const int64_t run = int64_t{at.w.size} * lines.images.group, windows = int64_t{at.h.count} * at.w.count;
    if (windows == 0 || lines.window_elements() == 0) return false;
    const int64_t places = std::min<int64_t>(at.h.size, (kDepth - 2) / run + 2), images = (kBlock - 2) / windows + 2;
    const int64_t rows = std::min<int64_t>((kBlock - 2) / at.w.count + 2, images * at.h.count);
    // Every image's rows have lines of their own; neighbouring rows share some.
    const int64_t most = (rows - images) * at.h.stride + images * ((places - 1) * at.h.dilation + 1);
    return lines.line < kRoom && most * lines.line <= kRoom;
  }

  template <class Isa, int kBlock>
  At block(int64_t m, int count, int64_t k, int64_t depth, float* gathered, const float** from) const {
    const Windows& at = lines.images.at;
    const int64_t run = int64_t{at.w.size} * lines.images.group;
    const int first = static_cast<int>(k / run), last = static_cast<int>((k + depth - 1) / run);  // rows of a window
    GridPosition g(at, m);
    for (int r = 0; r < count;) {
      const int windows = std::min(count - r, (at.h.count - g.p) * at.w.count - g.q);  // of this image
      const int rows = (g.q + windows - 1) / at.w.count + 1;
      const int lines_here = lines.count(rows, last - first + 1), end = rows == 1 ? g.q + windows : at.w.count;
      lines.copy<Isa>(g.n, g.p, first, lines_here, rows == 1 ? g.q : 0, end - 1, gathered);
      const float* start = gathered - int64_t{first} * at.h.dilation * lines.line;  // of the first window of row g.p
      gathered += lines_here * lines.line;
      for (int i = 0, p = 0; i < windows; ++i, ++r) {
        from[r] = start + p * at.h.stride * lines.line + g.q * at.w.stride * lines.pixel;
        if (++g.q == at.w.count) g.q = 0, ++p;
      }
      g = GridPosition(at, m + r);
    }
    return {offsets + k};
  }
};

}  // namespace lite
