#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/vector/math.h"

// Where the matrices of a product come from. A source of A has
//   block<Isa, kBlock>(row, count, k, depth, gathered, from) -> step
// which sets from[r], for `count` rows from `row` on, to where elements [k, k + depth) of the row are, `step` apart:
// in the tensor itself, or in `gathered`, which has room for kBlock times depth elements and a vector. A source of B
// has
//   panel<Tile>(k, depth, column, count, to)   writes [depth][Tile::kColumns], anything behind `count` columns
//   in_place(k, column), step()                where such a panel lies in the tensor, its rows `step` apart, or null

namespace lite {

template <class Isa>
inline void copy_floats(const float* from, int64_t n, float* to) {
  over<Isa>(n, [&](int64_t i, int lanes) { Isa::store(to + i, Isa::load(from + i, lanes), lanes); });
}
// The same, and faster, for who writes on behind: whole vectors are written, up to kLanes - 1 elements too many.
template <class Isa>
inline void copy_ahead(const float* from, int64_t n, float* to) {
  over<Isa>(n, [&](int64_t i, int lanes) { Isa::store(to + i, Isa::load(from + i, lanes)); });
}
template <class Isa>
inline void zero_ahead(int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += Isa::kLanes) Isa::store(to + i, Isa::all(0.0f));
}

// A row-major matrix.
struct RowsA {
  const float* base;
  int64_t step;  // from row to row

  const float* row(int64_t m) const { return base + m * step; }

  template <class Isa, int kBlock>
  int64_t block(int64_t m, int count, int64_t k, int64_t, float*, const float** from) const {
    for (int r = 0; r < count; ++r) from[r] = row(m + r) + k;
    return 1;
  }
};

// A transposed row-major matrix: row m of A is a column of it.
struct ColumnsA {
  const float* base;
  int64_t step;

  template <class Isa, int kBlock>
  int64_t block(int64_t m, int count, int64_t k, int64_t depth, float* gathered, const float** from) const {
    for (int64_t i = 0; i < depth; ++i) {
      float* to = gathered + i * kBlock;
      copy_ahead<Isa>(base + (k + i) * step + m, count, to);
      std::fill(to + count, to + kBlock, 0.0f);
    }
    for (int r = 0; r < count; ++r) from[r] = gathered + r;
    return kBlock;
  }
};

// One row of a panel, zeros behind `count` columns.
template <class Tile>
inline void panel_row(const float* from, int count, float* to) {
  using Isa = typename Tile::Isa;
  for (int i = 0; i < Tile::kColumns; i += Isa::kLanes) {
    const int lanes = std::min(count - i, Isa::kLanes);
    Isa::store(to + i, lanes > 0 ? Isa::load(from + i, lanes) : Isa::all(0.0f));
  }
}

// A row-major matrix.
struct RowsB {
  const float* base;
  int64_t width;

  const float* in_place(int64_t k, int64_t column) const { return base + k * width + column; }
  int64_t step() const { return width; }

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int count, float* to) const {
    for (int64_t i = 0; i < depth; ++i, to += Tile::kColumns) {
      panel_row<Tile>(base + (k + i) * width + column, count, to);
    }
  }
};

// A transposed row-major matrix: column j of B is a row of it.
struct ColumnsB {
  const float* base;
  int64_t width;

  const float* in_place(int64_t, int64_t) const { return nullptr; }
  int64_t step() const { return 0; }

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int count, float* to) const {
    const float* from[Tile::kColumns];  // columns behind the last one are copies of it that nobody reads
    for (int i = 0; i < Tile::kColumns; ++i) from[i] = base + (column + std::min(i, count - 1)) * width + k;
    Tile::transpose(from, depth, to);
  }
};

// Panels of all of B that were packed before, zeros (or anything) behind the last column.
struct PackedB {
  const float* base;
  int64_t panel_size;  // floats from one panel to the next
  int columns;         // of a panel

  const float* in_place(int64_t k, int64_t column) const { return base + column / columns * panel_size + k * columns; }
  int64_t step() const { return columns; }

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int, float* to) const {
    std::copy_n(in_place(k, column), depth * Tile::kColumns, to);
  }
};

// Whether every panel of a source lies ready, also the last and narrow one.
template <class B>
constexpr bool kIsPacked = false;
template <>
constexpr bool kIsPacked<PackedB> = true;

}  // namespace lite
