#pragma once

#include <cstring>

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/patches.h"

// The kernel of conv2d_dw, for any micro-kernel. Windows are many and the result is small: windows are split into
// parts, so that threads find work, and the parts' results are added up in order.

namespace lite {

// What the ways to compute it share.
struct WeightGradient {
  static constexpr int64_t kMostParts = 4;
  static constexpr int64_t kSmall = 1 << 17;  // elements; a larger result gives threads enough to do

  const Tensor &x, &g, &y;
  const Windows at;
  const int groups, c;    // c: channels of a group
  const int64_t m, n;     // k of a group, r s c
  const int64_t windows;  // n p q
  const int64_t parts;

  WeightGradient(const Call<conv2d_dw_attrs>& call, int64_t fewest_windows_of_a_part)
      : x(call.in[0]),
        g(call.in[1]),
        y(call.y()),
        at(windows_of(x, y.dim(1), y.dim(2), g, call.attrs)),
        groups(call.attrs.groups),
        c(y.dim(3)),
        m(y.dim(0) / groups),
        n(int64_t{at.h.size} * at.w.size * c),
        windows(int64_t{at.n} * at.h.count * at.w.count),
        parts(y.elements() > kSmall ? 1 : std::clamp<int64_t>(windows / fewest_windows_of_a_part, 1, kMostParts)) {}

  bool whole_pixels() const { return all_positions(at.h) && all_positions(at.w); }  // windows are the pixels, in order

 private:
  static bool all_positions(const Axis& axis) {
    return axis.size == 1 && axis.stride == 1 && axis.pad == 0 && axis.count == axis.length;
  }
};

// By a product for each group: y [k,rsc] = g^T [k,windows] patches [windows,rsc]. A part's piece of scratch is its
// result, then packed patches.
template <class Tile>
struct WeightProduct : WeightGradient {
  explicit WeightProduct(const Call<conv2d_dw_attrs>& call) : WeightGradient(call, 1024) {}

  uint64_t result_bytes() const { return parts > 1 ? (y.size_bytes() + 63) / 64 * 64 : 0; }
  uint64_t piece_bytes() const { return result_bytes() + Gemm<Tile>::scratch_bytes(n, (windows + parts - 1) / parts); }

  // The result for part `index` of the windows.
  void part(int64_t index, const Context& context, float* to) const {
    const int64_t begin = windows * index / parts, end = windows * (index + 1) / parts;
    for (int i = 0; i < groups; ++i) {
      const ColumnsA a = {g.f32() + begin * g.dim(3) + i * m, g.dim(3)};
      const RowsC c_rows = {to + i * m * n, n};
      if (whole_pixels()) {
        const RowsB b = {x.f32() + begin * x.dim(3) + i * c, x.dim(3)};
        Gemm<Tile>::run(context, m, n, end - begin, a, b, c_rows);
      } else {
        const PatchesB b = {{x.f32(), at, x.dim(3), i * c, c}, begin};
        Gemm<Tile>::run(context, m, n, end - begin, a, b, c_rows);
      }
    }
  }

  Status run(const Context& context) const {
    float* to = y.f32();
    if (parts == 1) {
      part(0, context, to);
      return Status::kOk;
    }
    const auto piece = [&](int64_t i) { return static_cast<char*>(context.scratch) + i * piece_bytes(); };
    const int64_t elements = y.elements(), cost = 2 * elements * windows / parts;
    parallel_for(context.pool, parts, share(parts, cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Context alone = {piece(i) + result_bytes(), nullptr};
        part(i, alone, reinterpret_cast<float*>(piece(i)));
      }
    });
    using Isa = typename Tile::Isa;
    over<Isa>(elements, [&](int64_t i, int lanes) {
      auto sum = Isa::load(reinterpret_cast<float*>(piece(0)) + i, lanes);
      for (int64_t p = 1; p < parts; ++p) sum = sum + Isa::load(reinterpret_cast<float*>(piece(p)) + i, lanes);
      Isa::store(to + i, sum, lanes);
    });
    return Status::kOk;
  }
};

// With few channels, gathering patches takes longer than multiplying them. Here nothing is gathered: a row of windows
// p sees, at one place of the window, pixels that lie evenly apart, so the micro-kernel takes
//   y^T [rsc,k] += (pixels under the row of windows) [rsc,q] g [q,k]
// from the image itself, or from a copy with zeros around it. A part's piece of scratch is y^T, where the places lie,
// the copy, and g's last columns.
template <class Tile>
struct WeightRows : WeightGradient {
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;
  static constexpr int kFewChannels = 32, kLongRow = 12, kShortRow = 8;

  const int64_t columns;    // k of a group, rounded up to whole tiles
  const int height, width;  // that the windows reach, padding included
  const bool padded;
  const int64_t pixel;  // from one pixel to the next in image or copy

  explicit WeightRows(const Call<conv2d_dw_attrs>& call)
      : WeightGradient(call, 256),
        columns(m / kColumns * kColumns + panel_width<Tile>(m % kColumns)),
        height(reach(at.h)),
        width(reach(at.w)),
        padded(at.h.pad > 0 || at.w.pad > 0 || height > at.h.length || width > at.w.length),
        pixel(padded ? c : x.dim(3)) {}

  // Whether this takes less time than the product, and not much memory.
  bool fits() const {
    return !whole_pixels() && at.w.count >= (c < kFewChannels ? kShortRow : kLongRow) &&
           groups * n * columns <= kSmall && height <= 2 * at.h.length && width <= 2 * at.w.length;
  }

  uint64_t piece_bytes() const { return result_bytes() + places_bytes() + copy_bytes() + last_bytes(); }

  Status run(const Context& context) const {
    const int64_t rows = int64_t{at.n} * at.h.count, cost = 2 * y.elements() * windows / parts;
    parallel_for(context.pool, parts, share(parts, cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) part(rows * i / parts, rows * (i + 1) / parts, piece(context, i));
    });
    float* to = y.f32();
    for (int64_t k = 0; k < groups * m; ++k) {
      const int64_t at_k = k / m * n * columns + k % m;
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < parts; ++p) sum += piece(context, p).result[at_k + j * columns];
        *to++ = sum;
      }
    }
    return Status::kOk;
  }

 private:
  struct Piece {
    float* result;
    int64_t* places;
    float *copy, *last;
  };

  static int reach(const Axis& axis) { return axis.position(axis.count - 1, axis.size - 1) + axis.pad + 1; }

  static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  uint64_t result_bytes() const { return rounded(groups * n * columns * sizeof(float)); }
  uint64_t places_bytes() const { return rounded(n * sizeof(int64_t)); }
  uint64_t copy_bytes() const {
    return padded ? rounded((int64_t{height} * width * c + Tile::Isa::kLanes) * sizeof(float)) : 0;
  }
  uint64_t last_bytes() const {
    return !Tile::kAnyColumns && m < columns ? int64_t{at.w.count} * kColumns * sizeof(float) : 0;
  }

  Piece piece(const Context& context, int64_t i) const {
    char* result = static_cast<char*>(context.scratch) + i * piece_bytes();
    char *places = result + result_bytes(), *copy = places + places_bytes();
    return {reinterpret_cast<float*>(result), reinterpret_cast<int64_t*>(places), reinterpret_cast<float*>(copy),
            reinterpret_cast<float*>(copy + copy_bytes())};
  }

  // The result for rows [begin, end) of windows, counted over all images.
  void part(int64_t begin, int64_t end, const Piece& piece) const {
    std::memset(piece.result, 0, result_bytes());
    const int64_t line = (padded ? width : at.w.length) * pixel;
    for (int64_t i = 0; i < n; ++i) {
      piece.places[i] = i / c / at.w.size * at.h.dilation * line + i / c % at.w.size * at.w.dilation * pixel + i % c;
    }
    for (int group = 0; group < groups; ++group) {
      const float* image = nullptr;
      for (int64_t row = begin; row < end; ++row) {
        const int64_t p = row % at.h.count;
        if (image == nullptr || p == 0) image = whole_image(row / at.h.count, group, piece.copy);
        row_of_windows(image + p * at.h.stride * line, g.f32() + row * at.w.count * g.dim(3) + group * m, piece,
                       piece.result + group * n * columns);
      }
    }
  }

  // The group's first channel of image `index`, or of the copy of it.
  const float* whole_image(int64_t index, int group, float* copy) const {
    const float* from = x.f32() + index * at.h.length * at.w.length * x.dim(3) + group * c;
    if (!padded) return from;
    float* to = copy;
    for (int i = -at.h.pad; i < height - at.h.pad; ++i) {
      for (int j = -at.w.pad; j < width - at.w.pad; ++j, to += c) {
        if (at.h.inside(i) && at.w.inside(j)) {
          copy_ahead<typename Tile::Isa>(from + (int64_t{i} * at.w.length + j) * x.dim(3), c, to);
        } else {
          zero_ahead<typename Tile::Isa>(c, to);
        }
      }
    }
    return copy;
  }

  // result += pixels g for one row of windows; `image` is where its first window starts.
  void row_of_windows(const float* image, const float* g_row, const Piece& piece, float* result) const {
    const int q = at.w.count;
    const int64_t step = at.w.stride * pixel;
    for (int64_t j = 0; j < columns; j += kColumns) {
      const float* b = g_row + j;
      int64_t b_step = g.dim(3);
      const int count = static_cast<int>(std::min<int64_t>(kColumns, m - j));
      if (!Tile::kAnyColumns && count < kColumns) {
        for (int i = 0; i < q; ++i) {
          panel_row<typename Tile::Isa>(b + i * b_step, count, kColumns, piece.last + i * kColumns);
        }
        b = piece.last;
        b_step = kColumns;
      }
      for (int64_t i = 0; i < n; i += kRows) {
        const int rows = static_cast<int>(std::min<int64_t>(kRows, n - i));
        const float* a[kRows];
        float* to[kRows];
        for (int r = 0; r < kRows; ++r) {
          const int64_t place = i + std::min(r, rows - 1);
          a[r] = image + piece.places[place];
          to[r] = result + place * columns + j;
        }
        Tile::run_apart(rows, count, q, a, step, b, b_step, to, nullptr, true);
      }
    }
  }
};

template <class Tile>
Status gemm_conv2d_dw(const Call<conv2d_dw_attrs>& call) {
  const WeightRows<Tile> rows(call);
  return rows.fits() ? rows.run(call.context) : WeightProduct<Tile>(call).run(call.context);
}
template <class Tile>
uint64_t gemm_conv2d_dw_scratch(const Call<conv2d_dw_attrs>& call) {
  const WeightRows<Tile> rows(call);
  const WeightProduct<Tile> product(call);
  return rows.parts * (rows.fits() ? rows.piece_bytes() : product.piece_bytes());
}

}  // namespace lite
