#pragma once

#include <cstring>

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/lines.h"
#include "kernels/vector/transpose.h"

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
      if (are_pixels(at)) {
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

// Nothing is gathered here: a place of the window sees, in all windows of a band, pixels whose distances from the first
// one are the same for every place. So the micro-kernel takes
//   y^T [rsc,k] += (pixels under the windows) [rsc,windows] g [windows,k]
// from the image itself, or from a copy of a band of lines with zeros around it. A part's piece of scratch is y^T,
// where places and windows lie, the copy, and g's last columns.
template <class Tile>
struct WeightBands : WeightGradient {
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;
  static constexpr int kBand = 256;  // windows

  const Windows grid;     // the windows, or, where they are pixels, those of one long column of them
  const Lines lines;      // of the first group
  const int64_t columns;  // k of a group, rounded up as tiles want it
  const int band;         // rows of windows

  explicit WeightBands(const Call<conv2d_dw_attrs>& call)
      : WeightGradient(call, kBand),
        grid(are_pixels(at) ? one_column(windows) : at),
        lines(Images{x.f32(), grid, x.dim(3), 0, c}),
        columns(m / kColumns * kColumns + panel_width<Tile>(m % kColumns)),
        band(std::clamp(kBand / std::max(grid.w.count, 1), 1, std::max(grid.h.count, 1))) {}

  // Whether this takes no more memory than a small multiple of what it works on.
  bool fits() const {
    return (Tile::kTakesOffsets || (!are_pixels(at) && at.w.count >= 8)) && groups * n * columns <= kSmall &&
           lines.width <= 2 * grid.w.length;
  }

  uint64_t piece_bytes() const { return result_bytes() + offsets_bytes() + copy_bytes() + last_bytes(); }

  Status run(const Context& context) const {
    const int64_t rows = int64_t{grid.n} * grid.h.count, cost = 2 * y.elements() * windows / parts;
    parallel_for(context.pool, parts, share(parts, cost), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) part(rows * i / parts, rows * (i + 1) / parts, piece(context, i));
    });
    add_pieces(context);
    const int64_t strips = (m + kStrip - 1) / kStrip, n_strips = groups * strips;
    parallel_for(context.pool, n_strips, share(n_strips, 16 * kStrip * n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / strips, k = i % strips * kStrip;
        const float* from = piece(context, 0).result + group * n * columns + k;
        transpose_strip(from, columns, std::min(kStrip, m - k), n, y.f32() + (group * m + k) * n, n);
      }
    });
    return Status::kOk;
  }

 private:
  struct Piece {
    float* result;
    int64_t *places, *windows;
    float *copy, *last;
  };

  static Windows one_column(int64_t pixels) {
    const int length = static_cast<int>(pixels);
    return {1, {length, 1, length, 1, 1, 0}, {1, 1, 1, 1, 1, 0}};
  }

  static uint64_t rounded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  uint64_t result_bytes() const { return rounded(groups * n * columns * sizeof(float)); }
  int64_t windows_of_band() const { return int64_t{band} * grid.w.count; }
  uint64_t offsets_bytes() const { return rounded((n + windows_of_band()) * sizeof(int64_t)); }
  uint64_t copy_bytes() const {
    return lines.copied ? rounded(lines.count(band, grid.h.size) * lines.line * sizeof(float)) : 0;
  }
  uint64_t last_bytes() const {
    return !Tile::kAnyColumns && m < columns ? windows_of_band() * kColumns * sizeof(float) : 0;
  }

  Piece piece(const Context& context, int64_t i) const {
    char* result = static_cast<char*>(context.scratch) + i * piece_bytes();
    char *offsets = result + result_bytes(), *copy = offsets + offsets_bytes();
    int64_t* places = reinterpret_cast<int64_t*>(offsets);
    return {reinterpret_cast<float*>(result), places, places + n, reinterpret_cast<float*>(copy),
            reinterpret_cast<float*>(copy + copy_bytes())};
  }

  // The parts' results added up, in order, in the first one.
  void add_pieces(const Context& context) const {
    using Isa = typename Tile::Isa;
    const int64_t elements = groups * n * columns;
    float* sum = piece(context, 0).result;
    parallel_for(context.pool, elements, 1 << 14, [&](int64_t begin, int64_t end) {
      for (int64_t p = 1; p < parts; ++p) {
        const float* more = piece(context, p).result;
        over<Isa>(end - begin, [&](int64_t i, int lanes) {
          const int64_t k = begin + i;
          Isa::store(sum + k, Isa::load(sum + k, lanes) + Isa::load(more + k, lanes), lanes);
        });
      }
    });
  }

  // The result for rows [begin, end) of windows, counted over all images.
  void part(int64_t begin, int64_t end, const Piece& piece) const {
    std::memset(piece.result, 0, result_bytes());
    lines.offsets(piece.places);
    for (int64_t i = 0; i < windows_of_band(); ++i) {
      piece.windows[i] = i / grid.w.count * grid.h.stride * lines.line + i % grid.w.count * grid.w.stride * lines.pixel;
    }
    for (int group = 0; group < groups; ++group) {
      Lines of_group = lines;
      of_group.images.first = group * c;
      for (int64_t row = begin, rows; row < end; row += rows) {
        const int p = static_cast<int>(row % grid.h.count);
        rows = std::min<int64_t>({band, end - row, grid.h.count - p});
        const float* start = start_of(of_group, row / grid.h.count, p, static_cast<int>(rows), piece.copy);
        const float* g_start = g.f32() + row * grid.w.count * g.dim(3) + group * m;
        add_band(start, static_cast<int>(rows) * grid.w.count, g_start, piece, piece.result + group * n * columns);
      }
    }
  }

  // Where the first window of row p lies, in image `image` or in the copy of the lines under `rows` rows of windows.
  const float* start_of(const Lines& of_group, int64_t image, int p, int rows, float* copy) const {
    if (!lines.copied) return of_group.in_place(image, p, 0);
    of_group.template copy<typename Tile::Isa>(image, p, 0, lines.count(rows, grid.h.size), 0, grid.w.count - 1, copy);
    return copy;
  }

  // result += pixels g for the windows of a band.
  void add_band(const float* start, int count, const float* g_start, const Piece& piece, float* result) const {
    const TileEnds ends = {nullptr, true, limits_of(Activation::none)};
    for (int64_t j = 0; j < columns; j += kColumns) {
      const float* b = g_start + j;
      int64_t b_step = g.dim(3);
      const int width = static_cast<int>(std::min<int64_t>(kColumns, m - j));
      const int padded = panel_width<Tile>(width);
      if (!Tile::kAnyColumns && width < padded) {
        for (int i = 0; i < count; ++i) {
          panel_row<typename Tile::Isa>(b + i * b_step, width, padded, piece.last + i * padded);
        }
        b = piece.last;
        b_step = padded;
      }
      for (int64_t i = 0; i < n; i += kRows) {
        const int rows = static_cast<int>(std::min<int64_t>(kRows, n - i));
        const float* a[kRows];
        float* to[kRows];
        for (int r = 0; r < kRows; ++r) {
          const int64_t place = i + std::min(r, rows - 1);
          a[r] = start + piece.places[place];
          to[r] = result + place * columns + j;
        }
        Tile::run(rows, width, count, a, At{piece.windows}, b, b_step, to, ends);
      }
    }
  }
};

template <class Tile>
Status gemm_conv2d_dw(const Call<conv2d_dw_attrs>& call) {
  const WeightBands<Tile> bands(call);
  return bands.fits() ? bands.run(call.context) : WeightProduct<Tile>(call).run(call.context);
}
template <class Tile>
uint64_t gemm_conv2d_dw_scratch(const Call<conv2d_dw_attrs>& call) {
  const WeightBands<Tile> bands(call);
  const WeightProduct<Tile> product(call);
  return bands.parts * (bands.fits() ? bands.piece_bytes() : product.piece_bytes());
}

}  // namespace lite
