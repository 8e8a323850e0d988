#pragma once

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/patches.h"
#include "kernels/gemm/prepared.h"
#include "kernels/gemm/winograd_squares.h"

// 3x3 convolutions by squares of results (winograd_squares.h): pixels and weights become points, which are multiplied
// by a product each, and those become results.

namespace lite {

// Whether an instruction set has large squares: AVX-512, whose registers hold a line of them. NEON's layers would take
// 0.78 of the instructions, but then fewer on float32 than on int8.
template <class Tile>
constexpr bool kHasLargeSquares = Tile::Isa::kRegisters >= 32 && Tile::kAnyColumns;

// The convolution of `images` with 3x3 windows, strides and dilations of 1; `Weight` is what weights are stored as.
template <class Tile, class Squares = SmallSquares<typename Tile::Isa>, typename Weight = float>
class Winograd {
 public:
  using Isa = typename Tile::Isa;
  using V = typename Isa::V;

  // Weights lie as [rows,3,3,lanes]. `turned`: those of conv2d_dx, whose rows are the channels that are read, and whose
  // places come in falling order; else rows are results.
  Winograd(const Images& images, const Weight* weights, int results, bool turned)
      : images_(images), weights_(weights), k_(results), turned_(turned), together_(together(images.at)) {}

  // Whether it takes less time than the product: for channels enough to multiply, and for squares enough that are worth
  // transforming weights in each run; of many weights, which are rarely trained on few squares, for fewer. Measured
  // with AVX-512.
  static bool pays(const Windows& at, int channels, int results) {
    const auto plain = [](const Axis& axis) { return axis.size == 3 && axis.stride == 1 && axis.dilation == 1; };
    return plain(at.h) && plain(at.w) && channels >= kLeast && results >= kLeast &&
           squares_of(at) >= (int64_t{channels} * results > kMany ? 12 : kLeastSquares);
  }

  // Squares of results, counted over all images.
  static int64_t squares_of(const Windows& at) { return int64_t{at.n} * rows_of(at.h) * rows_of(at.w); }
  // Floats of packed weights: for every point a matrix [channels,results] in panels.
  static int64_t packed_floats(int channels, int results) {
    return kPoints * PackedB<Tile>::numbers(results, channels);
  }
  // For packed weights, unless those are prepared, then for the parts.
  static uint64_t scratch_bytes(const Windows& at, int channels, int results, bool packed) {
    const int64_t weights = packed ? 0 : packed_floats(channels, results);
    return static_cast<uint64_t>(weights + parts_of(at) * piece_floats(at, channels, results)) * sizeof(float);
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
        float* piece = scratch + part * piece_floats(images_.at, images_.group, k_);
        const int64_t last = squares * (part + 1) / parts;
        for (int64_t first = squares * part / parts; first < last; first += together_) {
          const int count = static_cast<int>(std::min(together_, last - first));
          block({packed, piece, y.base, y.step, ends}, first, count, parts > 1 ? nullptr : context.pool);
        }
      }
    });
  }

 private:
  static constexpr int kResults = Squares::kResults, kSeen = Squares::kSeen, kPoints = kSeen * kSeen;
  static constexpr int kLeast = 32;                             // channels, of which there must be a vector
  static constexpr int kMost = 64;                              // squares of a block
  static constexpr int64_t kTransform = 2 * kPoints * kPoints;  // operations for a channel of a square, memory included
  static constexpr int64_t kMany = 1 << 16;                     // weights
  static constexpr int64_t kStrip = 16;                         // channels whose weights are transformed together

  struct Block {
    const float* weights;
    float* piece;
    float* y;
    int64_t y_step;
    ProductEnds ends;
  };

  static int rows_of(const Axis& axis) { return (axis.count + kResults - 1) / kResults; }
  // Many squares are shared in parts; of few, each block is shared.
  static int64_t parts_of(const Windows& at) {
    const int64_t parts = squares_of(at) / (2 * kMost);
    return parts < 4 ? 1 : std::min<int64_t>(parts, 16);
  }
  // How many squares blocks have: as even as can be.
  static int64_t together(const Windows& at) {
    const int64_t parts = parts_of(at), part = (squares_of(at) + parts - 1) / parts,
                  blocks = (part + kMost - 1) / kMost;
    return blocks > 0 ? (part + blocks - 1) / blocks : 1;
  }
  // A part's images [points,squares,c] and results [points,squares,k], as they are between the transforms.
  static int64_t piece_floats(const Windows& at, int channels, int results) {
    return (kPoints * together(at) * (channels + results) + 15) / 16 * 16;
  }

  // A block of weights, `cs` channels from `c` on by `ks` results from `k` on, transformed to rows of a panel, for
  // every point.
  static void pack_block(const Weight* weights, int channels, int results, int64_t k, int64_t ks, int64_t c, int64_t cs,
                         bool turned, float* to, int64_t width) {
    const int64_t to_step = PackedB<Tile>::numbers(results, channels);  // from point to point
    Weight places[9 * kStrip * Tile::kMostColumns];                     // [places][cs][width]
    const Weight* from = weights + c * 9 * results + k;
    int64_t row_step = int64_t{9} * results, step = results;
    if (!turned) {
      for (int place = 0; place < 9; ++place) {
        const ColumnsB<Weight> columns = {weights + (k * 9 + place) * channels, int64_t{9} * channels};
        columns.template panel<Tile>(c, cs, 0, static_cast<int>(ks), static_cast<int>(width),
                                     places + place * kStrip * width);
      }
      from = places, row_step = width, step = kStrip * width;
    }
    for (int64_t row = 0; row < cs; ++row) {
      for (int64_t i = 0; i < ks; i += Isa::kLanes) {
        const int lanes = static_cast<int>(std::min<int64_t>(Isa::kLanes, ks - i));
        transform_weight(from + row * row_step + i, step, lanes, turned, to + row * width + i, to_step);
      }
    }
  }

  // Writes whole vectors, as wide as panels are.
  static void transform_weight(const Weight* w, int64_t step, int lanes, bool turned, float* to, int64_t to_step) {
    V t[kSeen][3];
#pragma GCC unroll 1
    for (int j = 0; j < 3; ++j) {
      V g[3], column[kSeen];
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) g[i] = Isa::load(w + (turned ? 8 - 3 * i - j : 3 * i + j) * step, lanes);
      Squares::weights(g, column);
#pragma GCC unroll 6
      for (int i = 0; i < kSeen; ++i) t[i][j] = column[i];
    }
#pragma GCC unroll 1
    for (int i = 0; i < kSeen; ++i) {
      V row[kSeen];
      Squares::weights(t[i], row);
#pragma GCC unroll 6
      for (int j = 0; j < kSeen; ++j) Isa::store(to + (kSeen * i + j) * to_step, row[j]);
    }
  }

  // Squares [first, first + count), counted over all images.
  __attribute__((noinline)) void block(const Block& block, int64_t first, int count, ThreadPool* pool) const {
    const int channels = images_.group;
    float *pixels = block.piece, *products = pixels + kPoints * together_ * channels;
    parallel_for(pool, count, share(count, kTransform * channels), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) read_square(first + i, pixels + i * channels);
    });
    const int64_t cost = int64_t{2} * count * channels * k_;
    parallel_for(pool, kPoints, share(kPoints, cost), [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) {
        const RowsA a = {pixels + point * together_ * channels, channels};
        const int64_t matrix = PackedB<Tile>::numbers(k_, channels);
        const float* weights = block.weights + point * matrix;
        const PackedB<Tile> b = {weights, k_, channels, point + 1 < kPoints ? weights + matrix : nullptr};
        Gemm<Tile>::run(Context(), count, k_, channels, a, b, RowsC{products + point * together_ * k_, k_});
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
    return {static_cast<int>(index / columns / rows), kResults * static_cast<int>(index / columns % rows),
            kResults * static_cast<int>(index % columns)};
  }

  // B^T d B of the pixels that a square's windows see; zeros beyond the image.
  __attribute__((noinline)) void read_square(int64_t index, float* to) const {
    const Square s = square(index);
    const Axis &h = images_.at.h, &w = images_.at.w;
    const float* from[kPoints];
    for (int i = 0; i < kPoints; ++i) {
      const int y = h.position(s.row, i / kSeen), x = w.position(s.column, i % kSeen);
      from[i] = h.inside(y) && w.inside(x) ? images_.pixel(s.n, y, x) : nullptr;
    }
    const int64_t to_step = together_ * images_.group;
    for (int64_t next = 0; next < images_.group; next += Isa::kLanes) {
      const int64_t c = std::min<int64_t>(next, images_.group - Isa::kLanes);  // the last two vectors may overlap
      V t[kSeen][kSeen];
      for_lines<Squares, kSeen>([&](int j) {
        V d[kSeen], column[kSeen];
#pragma GCC unroll 6
        for (int i = 0; i < kSeen; ++i) {
          const float* pixel = from[kSeen * i + j];
          d[i] = pixel != nullptr ? Isa::load(pixel + c) : Isa::all(0.0f);
        }
        Squares::image(d, column);
#pragma GCC unroll 6
        for (int i = 0; i < kSeen; ++i) t[i][j] = column[i];
      });
      for_lines<Squares, kSeen>([&](int i) {
        V row[kSeen];
        Squares::image(t[i], row);
#pragma GCC unroll 6
        for (int j = 0; j < kSeen; ++j) Isa::store(to + (kSeen * i + j) * to_step + c, row[j]);
      });
    }
  }

  // activation(A^T m A + bias + added) to the square's results, those that there are.
  __attribute__((noinline)) void write_square(const Block& block, int64_t index, const float* products) const {
    const Square s = square(index);
    const Axis &h = images_.at.h, &w = images_.at.w;
    const int64_t step = together_ * k_;
    const int64_t window = (int64_t{s.n} * h.count + s.row) * w.count + s.column;
    float* to = block.y + window * block.y_step;
    const int rows = std::min(kResults, h.count - s.row), columns = std::min(kResults, w.count - s.column);
    const Limits limits = limits_of(block.ends.activation);
    const V low = Isa::all(limits.low), high = Isa::all(limits.high);
    const auto results = [&](int64_t c, int lanes) {
      V t[kResults][kSeen];
      for_lines<Squares, kSeen>([&](int j) {
        V m[kSeen], column[kResults];
#pragma GCC unroll 6
        for (int i = 0; i < kSeen; ++i) m[i] = Isa::load(products + (kSeen * i + j) * step + c, lanes);
        Squares::results(m, column);
#pragma GCC unroll 4
        for (int i = 0; i < kResults; ++i) t[i][j] = column[i];
      });
      const V bias = block.ends.bias != nullptr ? Isa::load(block.ends.bias + c, lanes) : Isa::all(0.0f);
      for_lines<Squares, kResults>([&](int i) {
        if (i >= rows) return;
        const int64_t first = window + int64_t{i} * w.count;
        float* row = block.y + first * block.y_step + c;
        V y[kResults];
        Squares::results(t[i], y);
#pragma GCC unroll 4
        for (int j = 0; j < kResults; ++j) {
          if (j >= columns) break;
          V sum = y[j] + bias;
          if (block.ends.added != nullptr) sum = sum + Isa::load(block.ends.added_row(first + j) + c, lanes);
          Isa::store(row + j * block.y_step, Isa::min(high, Isa::max(low, sum)), lanes);
        }
      });
    };
    if constexpr (kHasLargeSquares<Tile>) {  // whose masks cost nothing: less code is enough
      for (int64_t c = 0; c < k_; c += Isa::kLanes) {
        results(c, static_cast<int>(std::min<int64_t>(Isa::kLanes, k_ - c)));
      }
    } else {
      over<Isa>(k_, results);
    }
    if (only_limits(block.ends.activation)) return;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        activate_row<Isa>(block.ends.activation, k_, to + (int64_t{i} * w.count + j) * block.y_step);
      }
    }
  }

  const Images images_;
  const Weight* weights_;
  const int k_;
  const bool turned_;
  const int64_t together_;  // squares of a block
};

// Whether layers that go Winograd's way take less time by large squares, whose transformed weights are 2.25 times as
// many: where few results lie beyond the image, so that multiplications are at most 0.75 of the others, and squares are
// enough for the weights, which no cache keeps from run to run where they are many. Measured with AVX-512.
template <class Tile>
bool large_squares_pay(const Windows& at, int channels, int results) {
  if constexpr (!kHasLargeSquares<Tile>) return false;
  const int64_t large = Winograd<Tile, LargeSquares<typename Tile::Isa>>::squares_of(at);
  return large >= (int64_t{channels} * results < 1 << 15 ? 16 : 24) && 3 * large <= Winograd<Tile>::squares_of(at);
}

}  // namespace lite
