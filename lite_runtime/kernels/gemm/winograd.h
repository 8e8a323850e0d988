#pragma once

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/patches.h"
#include "kernels/gemm/prepared.h"
#include "kernels/vector/transpose.h"

// 3x3 convolutions by F(2x2, 3x3): squares of four results take 16 multiplications a channel instead of 36 (Winograd
// 1980; Lavin and Gray 2016). Numbers are added and halved before and after, so errors grow little.

namespace lite {

// The convolution of `images` with 3x3 windows, strides and dilations of 1; `Weight` is what weights are stored as.
template <class Tile, typename Weight = float>
class Winograd {
 public:
  using Isa = typename Tile::Isa;
  using V = typename Isa::V;

  // Weights lie as [rows,3,3,lanes]. `turned`: those of conv2d_dx, whose rows are the channels that are read, and whose
  // places come in falling order; else rows are results.
  Winograd(const Images& images, const Weight* weights, int results, bool turned)
      : images_(images), weights_(weights), k_(results), turned_(turned) {}

  // Whether it takes less time than the product: for channels enough to multiply, and for squares enough that are worth
  // transforming weights in each run; of many weights, which are rarely trained on few squares, for fewer. Measured
  // with AVX-512.
  static bool pays(const Windows& at, int channels, int results) {
    const auto plain = [](const Axis& axis) { return axis.size == 3 && axis.stride == 1 && axis.dilation == 1; };
    return plain(at.h) && plain(at.w) && channels >= 32 && results >= 32 &&
           squares_of(at) >= (int64_t{channels} * results > kMany ? 12 : kLeastSquares);
  }

  // Floats of packed weights: for every point a matrix [channels,results] in panels.
  static int64_t packed_floats(int channels, int results) {
    return kPoints * PackedB<Tile>::numbers(results, channels);
  }
  // For packed weights, unless those are prepared, then for the parts.
  static uint64_t scratch_bytes(const Windows& at, int channels, int results, bool packed) {
    const int64_t weights = packed ? 0 : packed_floats(channels, results);
    return static_cast<uint64_t>(weights + parts_of(at) * piece_floats(channels, results)) * sizeof(float);
  }

  // Packs G w G^T for every pair of channels; `weights` and `turned` as above.
  static void pack(ThreadPool* pool, const Weight* weights, int channels, int results, bool turned, float* to) {
    const int64_t panels = pieces_of<Tile>(results, Tile::kColumns), blocks = (channels + kStrip - 1) / kStrip;
    const int64_t tasks = panels * blocks, cost = 100 * Tile::kColumns * kStrip;
    parallel_for(pool, tasks, share(tasks, cost), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t k = task / blocks * Tile::kColumns, c = task % blocks * kStrip;
        const PackedB<Tile> panel = {nullptr, results, channels};
        const int64_t width = panel.width(k), at = k * channels + c * width;
        const int64_t ks = std::min(width, results - k), cs = std::min(kStrip, channels - c);
        pack_block(weights, channels, results, k, ks, c, cs, turned, to + at, width);
      }
    });
  }

  // y.row(window) gets the results; `packed` is what `pack` made, or null: it is made in scratch memory.
  template <class C>
  void run(const Context& context, const float* packed, const C& y, const ProductEnds& ends = {}) const {
    float* scratch = static_cast<float*>(context.scratch);
    if (packed == nullptr) {
      pack(context.pool, weights_, images_.group, k_, turned_, scratch);
      packed = scratch;
      scratch += packed_floats(images_.group, k_);
    }
    const int64_t parts = parts_of(images_.at), squares = squares_of(images_.at);
    const int64_t cost = 2 * kPoints * squares * images_.group * k_ / parts;
    parallel_for(context.pool, parts, share(parts, cost), [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        float* piece = scratch + part * piece_floats(images_.group, k_);
        const int64_t last = squares * (part + 1) / parts;
        for (int64_t first = squares * part / parts; first < last; first += kSquares) {
          const int count = static_cast<int>(std::min<int64_t>(kSquares, last - first));
          block({packed, piece, y.base, y.step, ends}, first, count, parts > 1 ? nullptr : context.pool);
        }
      }
    });
  }

 private:
  static constexpr int kPoints = 16, kSquares = 32;
  static constexpr int64_t kTransform = 2 * kPoints * kPoints;  // operations for a channel of a square, memory included
  static constexpr int64_t kMany = 1 << 16;                     // weights

  struct Block {
    const float* weights;
    float* piece;
    float* y;
    int64_t y_step;
    ProductEnds ends;
  };

  static int rows_of(const Axis& axis) { return (axis.count + 1) / 2; }
  static int64_t squares_of(const Windows& at) { return int64_t{at.n} * rows_of(at.h) * rows_of(at.w); }
  // Many squares are shared in parts; of few, each block is shared.
  static int64_t parts_of(const Windows& at) {
    const int64_t parts = squares_of(at) / (2 * kSquares);
    return parts < 4 ? 1 : std::min<int64_t>(parts, 16);
  }
  // A part's images [16,squares,c] and results [16,squares,k], as they are between the transforms.
  static int64_t piece_floats(int channels, int results) {
    return (int64_t{kPoints} * kSquares * (channels + results) + 15) / 16 * 16;
  }

  // A block of weights, `cs` channels from `c` on by `ks` results from `k` on, transformed to rows of a panel, for
  // every point.
  static void pack_block(const Weight* weights, int channels, int results, int64_t k, int64_t ks, int64_t c, int64_t cs,
                         bool turned, float* to, int64_t width) {
    const int64_t to_step = PackedB<Tile>::numbers(results, channels);  // from point to point
    if (turned) {
      for (int64_t row = 0; row < cs; ++row) {
        over<Isa>(ks, [&](int64_t i, int lanes) {
          transform_weight(weights + (c + row) * 9 * results + k + i, results, lanes, true, to + row * width + i,
                           to_step);
        });
      }
      return;
    }
    float points[kPoints * kStrip];
    for (int64_t i = 0; i < ks; ++i) {
      over<Isa>(cs, [&](int64_t j, int lanes) {
        transform_weight(weights + (k + i) * 9 * channels + c + j, channels, lanes, false, points + j, kStrip);
      });
      for (int point = 0; point < kPoints; ++point) {
        for (int64_t j = 0; j < cs; ++j) to[point * to_step + j * width + i] = points[point * kStrip + j];
      }
    }
  }

  static void transform_weight(const Weight* w, int64_t step, int lanes, bool turned, float* to, int64_t to_step) {
    V t[4][3];
    for (int j = 0; j < 3; ++j) {
      V g[3];
      for (int i = 0; i < 3; ++i) g[i] = Isa::load(w + (turned ? 8 - 3 * i - j : 3 * i + j) * step, lanes);
      V column[4];
      weight_line(g, column);
      for (int i = 0; i < 4; ++i) t[i][j] = column[i];
    }
    for (int i = 0; i < 4; ++i) {
      V row[4];
      weight_line(t[i], row);
      for (int j = 0; j < 4; ++j) Isa::store(to + (4 * i + j) * to_step, row[j], lanes);
    }
  }
  static void weight_line(const V (&g)[3], V (&to)[4]) {
    const V outer = (g[0] + g[2]) * 0.5f, inner = g[1] * 0.5f;
    to[0] = g[0];
    to[1] = outer + inner;
    to[2] = outer - inner;
    to[3] = g[2];
  }

  // Squares [first, first + count), counted over all images.
  void block(const Block& block, int64_t first, int count, ThreadPool* pool) const {
    const int channels = images_.group;
    float *pixels = block.piece, *products = pixels + int64_t{kPoints} * kSquares * channels;
    parallel_for(pool, count, share(count, kTransform * channels), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) read_square(first + i, pixels + i * channels);
    });
    const int64_t cost = int64_t{2} * count * channels * k_;
    parallel_for(pool, kPoints, share(kPoints, cost), [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) {
        const RowsA a = {pixels + point * kSquares * channels, channels};
        const PackedB<Tile> b = {block.weights + point * PackedB<Tile>::numbers(k_, channels), k_, channels};
        Gemm<Tile>::run(Context(), count, k_, channels, a, b, RowsC{products + point * kSquares * k_, k_});
      }
    });
    parallel_for(pool, count, share(count, kTransform * k_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) write_square(block, first + i, products + i * k_);
    });
  }

  struct Square {
    int n, row, column;  // of its first window
  };
  Square square(int64_t index) const {
    const int columns = rows_of(images_.at.w), rows = rows_of(images_.at.h);
    return {static_cast<int>(index / columns / rows), 2 * static_cast<int>(index / columns % rows),
            2 * static_cast<int>(index % columns)};
  }

  // B^T d B of the 4x4 pixels that a square's windows see; zeros beyond the image.
  void read_square(int64_t index, float* to) const {
    const Square s = square(index);
    const Axis &h = images_.at.h, &w = images_.at.w;
    const float* from[16];
    bool inside[16];
    for (int i = 0; i < 16; ++i) {
      const int y = h.position(s.row, i / 4), x = w.position(s.column, i % 4);
      inside[i] = h.inside(y) && w.inside(x);
      from[i] = inside[i] ? images_.pixel(s.n, y, x) : nullptr;
    }
    const int64_t to_step = int64_t{kSquares} * images_.group;
    over<Isa>(images_.group, [&](int64_t c, int lanes) {
      V t[4][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        V d[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          d[i] = inside[4 * i + j] ? Isa::load(from[4 * i + j] + c, lanes) : Isa::all(0.0f);
        }
        t[0][j] = d[0] - d[2];
        t[1][j] = d[1] + d[2];
        t[2][j] = d[2] - d[1];
        t[3][j] = d[1] - d[3];
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        float* row = to + 4 * i * to_step + c;
        Isa::store(row, t[i][0] - t[i][2], lanes);
        Isa::store(row + to_step, t[i][1] + t[i][2], lanes);
        Isa::store(row + 2 * to_step, t[i][2] - t[i][1], lanes);
        Isa::store(row + 3 * to_step, t[i][1] - t[i][3], lanes);
      }
    });
  }

  // activation(A^T m A + bias + added) to the square's results, those that there are.
  void write_square(const Block& block, int64_t index, const float* products) const {
    const Square s = square(index);
    const Axis &h = images_.at.h, &w = images_.at.w;
    const int64_t step = int64_t{kSquares} * k_;
    const int64_t window = (int64_t{s.n} * h.count + s.row) * w.count + s.column;
    float* to = block.y + window * block.y_step;
    const bool below = s.row + 1 < h.count, beside = s.column + 1 < w.count;
    const Limits limits = limits_of(block.ends.activation);
    const V low = Isa::all(limits.low), high = Isa::all(limits.high);
    over<Isa>(k_, [&](int64_t c, int lanes) {
      V t[2][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        V m[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) m[i] = Isa::load(products + (4 * i + j) * step + c, lanes);
        t[0][j] = m[0] + m[1] + m[2];
        t[1][j] = m[1] - m[2] - m[3];
      }
      const V bias = block.ends.bias != nullptr ? Isa::load(block.ends.bias + c, lanes) : Isa::all(0.0f);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        if (i == 1 && !below) break;
        float* row = to + i * w.count * block.y_step + c;
        V left = t[i][0] + t[i][1] + t[i][2] + bias, right = t[i][1] - t[i][2] - t[i][3] + bias;
        if (block.ends.added != nullptr) {
          const float* added = block.ends.added_row(window + i * w.count) + c;
          left = left + Isa::load(added, lanes);
          if (beside) right = right + Isa::load(added + block.ends.added_step, lanes);
        }
        Isa::store(row, Isa::min(high, Isa::max(low, left)), lanes);
        if (beside) Isa::store(row + block.y_step, Isa::min(high, Isa::max(low, right)), lanes);
      }
    });
    if (only_limits(block.ends.activation)) return;
    for (int i = 0; i < (below ? 2 : 1); ++i) {
      for (int j = 0; j < (beside ? 2 : 1); ++j) {
        activate_row<Isa>(block.ends.activation, k_, to + (i * w.count + j) * block.y_step);
      }
    }
  }

  const Images images_;
  const Weight* weights_;
  const int k_;
  const bool turned_;
};

}  // namespace lite
