#pragma once

#include "core/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/patches.h"
#include "kernels/vector/transpose.h"

// 3x3 convolutions by F(2x2, 3x3): squares of four results take 16 multiplications a channel instead of 36 (Winograd
// 1980; Lavin and Gray 2016). Numbers are added and halved before and after, so errors grow little.

namespace lite {

// The convolution of `images` with 3x3 windows, strides and dilations of 1.
template <class Tile>
class Winograd {
 public:
  using Isa = typename Tile::Isa;
  using V = typename Isa::V;

  // Weights lie as [rows,3,3,lanes]. `turned`: those of conv2d_dx, whose rows are the channels that are read, and whose
  // places come in falling order; else rows are results.
  Winograd(const Images& images, const float* weights, int results, bool turned)
      : images_(images), weights_(weights), k_(results), turned_(turned) {}

  // Whether it takes less time than the product: for channels enough to multiply, and for squares enough that are worth
  // transformed weights. Measured with AVX-512.
  static bool pays(const Windows& at, int channels, int results) {
    const auto plain = [](const Axis& axis) { return axis.size == 3 && axis.stride == 1 && axis.dilation == 1; };
    return Tile::kAnyColumns && plain(at.h) && plain(at.w) && channels >= 32 && results >= 32 &&
           int64_t{channels} * results <= kMostWeights && squares_of(at) >= 64;
  }

  // For weights as they are packed, then for the parts.
  static uint64_t scratch_bytes(const Windows& at, int channels, int results) {
    const int64_t packed = int64_t{kPoints} * channels * results, transformed = packed;
    return static_cast<uint64_t>(packed + transformed + parts_of(at) * piece_floats(channels, results)) * sizeof(float);
  }

  void run(const Context& context, float* y, int64_t y_step, const float* bias, Activation activation) const {
    float* scratch = static_cast<float*>(context.scratch);
    const int64_t packed = int64_t{kPoints} * images_.group * k_;
    transform_weights(context, scratch, scratch + packed);
    const int64_t parts = parts_of(images_.at), squares = squares_of(images_.at);
    const int64_t cost = 2 * kPoints * squares * images_.group * k_ / parts;
    parallel_for(context.pool, parts, share(parts, cost), [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        float* piece = scratch + 2 * packed + part * piece_floats(images_.group, k_);
        const int64_t last = squares * (part + 1) / parts;
        for (int64_t first = squares * part / parts; first < last; first += kSquares) {
          const int count = static_cast<int>(std::min<int64_t>(kSquares, last - first));
          block({scratch, piece, y, y_step, bias, activation}, first, count);
        }
      }
    });
  }

 private:
  static constexpr int kPoints = 16, kSquares = 32;
  static constexpr int64_t kMostWeights = 1 << 16;

  struct Block {
    const float* weights;
    float* piece;
    float* y;
    int64_t y_step;
    const float* bias;
    Activation activation;
  };

  static int rows_of(const Axis& axis) { return (axis.count + 1) / 2; }
  static int64_t squares_of(const Windows& at) { return int64_t{at.n} * rows_of(at.h) * rows_of(at.w); }
  static int64_t parts_of(const Windows& at) { return std::clamp<int64_t>(squares_of(at) / (2 * kSquares), 1, 16); }
  // A part's images [16,squares,c] and results [16,squares,k], as they are between the transforms.
  static int64_t piece_floats(int channels, int results) {
    return (int64_t{kPoints} * kSquares * (channels + results) + 15) / 16 * 16;
  }

  // Packs G w G^T for every pair of channels: [16] matrices [channels,results].
  void transform_weights(const Context& context, float* packed, float* by_rows) const {
    const int rows = turned_ ? images_.group : k_, lanes_of_row = turned_ ? k_ : images_.group;
    const int64_t matrix = int64_t{rows} * lanes_of_row;
    float* to = turned_ ? packed : by_rows;
    parallel_for(context.pool, rows, share(rows, 100 * lanes_of_row), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        over<Isa>(lanes_of_row, [&](int64_t i, int lanes) {
          transform_weight(weights_ + row * 9 * lanes_of_row + i, lanes_of_row, lanes, to + row * lanes_of_row + i,
                           matrix);
        });
      }
    });
    if (turned_) return;
    parallel_for(context.pool, kPoints, share(kPoints, 8 * matrix), [&](int64_t begin, int64_t end) {
      for (int64_t point = begin; point < end; ++point) pack_rows(by_rows + point * matrix, packed + point * matrix);
    });
  }

  // to[c,k] = from[k,c]
  void pack_rows(const float* from, float* to) const {
    const int channels = images_.group;
    for (int64_t k = 0; k < k_; k += kStrip) {
      for (int64_t c = 0; c < channels; c += kStrip) {
        transpose_strip(from + k * channels + c, channels, std::min<int64_t>(kStrip, channels - c),
                        std::min<int64_t>(kStrip, k_ - k), to + c * k_ + k, k_);
      }
    }
  }

  void transform_weight(const float* w, int64_t step, int lanes, float* to, int64_t to_step) const {
    V t[4][3];
    for (int j = 0; j < 3; ++j) {
      V g[3];
      for (int i = 0; i < 3; ++i) g[i] = Isa::load(w + (turned_ ? 8 - 3 * i - j : 3 * i + j) * step, lanes);
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
  void block(const Block& block, int64_t first, int count) const {
    const int channels = images_.group;
    float *pixels = block.piece, *products = pixels + int64_t{kPoints} * kSquares * channels;
    for (int i = 0; i < count; ++i) read_square(first + i, pixels + int64_t{i} * channels);
    for (int point = 0; point < kPoints; ++point) {
      multiply(count, pixels + int64_t{point} * kSquares * channels, block.weights + int64_t{point} * channels * k_,
               products + int64_t{point} * kSquares * k_);
    }
    for (int i = 0; i < count; ++i) write_square(block, first + i, products + int64_t{i} * k_);
  }

  // products [count,k] = pixels [count,c] weights [c,k]
  void multiply(int count, const float* pixels, const float* weights, float* products) const {
    for (int j = 0; j < k_; j += Tile::kColumns) {
      for (int i = 0; i < count; i += Tile::kRows) {
        const int rows = std::min(Tile::kRows, count - i);
        const float* a[Tile::kRows];
        float* c[Tile::kRows];
        for (int r = 0; r < Tile::kRows; ++r) {
          const int64_t row = i + std::min(r, rows - 1);
          a[r] = pixels + row * images_.group;
          c[r] = products + row * k_ + j;
        }
        Tile::run(rows, std::min(Tile::kColumns, k_ - j), images_.group, a, Apart{1}, weights + j, k_, c, nullptr,
                  false);
      }
    }
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

  // activation(A^T m A + bias) to the square's results, those that there are.
  void write_square(const Block& block, int64_t index, const float* products) const {
    const Square s = square(index);
    const Axis &h = images_.at.h, &w = images_.at.w;
    const int64_t step = int64_t{kSquares} * k_;
    float* to = block.y + ((int64_t{s.n} * h.count + s.row) * w.count + s.column) * block.y_step;
    const bool below = s.row + 1 < h.count, beside = s.column + 1 < w.count;
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
      const V bias = block.bias != nullptr ? Isa::load(block.bias + c, lanes) : Isa::all(0.0f);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        if (i == 1 && !below) break;
        float* row = to + i * w.count * block.y_step + c;
        const V left = t[i][0] + t[i][1] + t[i][2] + bias, right = t[i][1] - t[i][2] - t[i][3] + bias;
        Isa::store(row, vactivate<Isa>(block.activation, left), lanes);
        if (beside) Isa::store(row + block.y_step, vactivate<Isa>(block.activation, right), lanes);
      }
    });
  }

  const Images images_;
  const float* weights_;
  const int k_;
  const bool turned_;
};

}  // namespace lite
