#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/vector/math.h"

// Where the matrices of a product come from. A source of A has
//   block<Isa, kBlock>(row, count, k, depth, gathered, from) -> step or offsets
// which sets from[r], for `count` rows from `row` on, to where elements [k, k + depth) of the row are: Apart or At, in
// the tensor itself, or in `gathered`, which has room for kGathered elements and a vector. Where it copies nothing, it
// says so: kInPlace<A>. A source of B that is not packed has
//   panel<Tile>(k, depth, column, count, width, to)   writes [depth][width], anything behind `count` columns

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

// The elements of rows of A, `step` apart.
struct Apart {
  int64_t step;
  int64_t operator()(int64_t k) const { return k * step; }
};
// The elements of rows of A, as far from the row's start as `offsets` say.
struct At {
  const int64_t* offsets;
  int64_t operator()(int64_t k) const { return offsets[k]; }
};

// A row-major matrix.
struct RowsA {
  const float* base;
  int64_t step;  // from row to row

  const float* row(int64_t m) const { return base + m * step; }

  template <class Isa, int kBlock>
  Apart block(int64_t m, int count, int64_t k, int64_t, float*, const float** from) const {
    for (int r = 0; r < count; ++r) from[r] = row(m + r) + k;
    return {1};
  }
};

template <class A>
constexpr bool kInPlace = false;
template <>
inline constexpr bool kInPlace<RowsA> = true;

// A transposed row-major matrix: row m of A is a column of it.
struct ColumnsA {
  const float* base;
  int64_t step;

  template <class Isa, int kBlock>
  Apart block(int64_t m, int count, int64_t k, int64_t depth, float* gathered, const float** from) const {
    for (int64_t i = 0; i < depth; ++i) {
      float* to = gathered + i * kBlock;
      copy_ahead<Isa>(base + (k + i) * step + m, count, to);
      std::fill(to + count, to + kBlock, 0.0f);
    }
    for (int r = 0; r < count; ++r) from[r] = gathered + r;
    return {kBlock};
  }
};

// How wide the panel of the next `count` columns is: the last one takes what is left, up to the most that a tile has,
// so that there is no narrow one behind it.
template <class Tile>
constexpr int panel_width(int64_t count) {
  constexpr int kLeast = Tile::kLeastColumns;
  const int64_t whole = (count + kLeast - 1) / kLeast * kLeast;
  return static_cast<int>(whole <= Tile::kMostColumns ? whole : Tile::kColumns);
}
// In how many pieces `n` columns go, each of `size`, a multiple of kColumns, but for the last one: all of them start
// with a panel.
template <class Tile>
constexpr int64_t pieces_of(int64_t n, int64_t size) {
  return std::max<int64_t>(1, (n - (Tile::kMostColumns - Tile::kColumns) + size - 1) / size);
}

// One row of a panel, zeros behind `count` columns.
template <class Isa>
inline void panel_row(const float* from, int count, int width, float* to) {
  for (int i = 0; i < width; i += Isa::kLanes) {
    const int lanes = std::min(count - i, Isa::kLanes);
    Isa::store(to + i, lanes > 0 ? Isa::load(from + i, lanes) : Isa::all(0.0f));
  }
}

// A row-major matrix.
struct RowsB {
  const float* base;
  int64_t step;  // from row to row

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int count, int width, float* to) const {
    for (int64_t i = 0; i < depth; ++i, to += width) {
      panel_row<typename Tile::Isa>(base + (k + i) * step + column, count, width, to);
    }
  }
};

// A transposed row-major matrix: column j of B is a row of it.
template <typename T>
struct ColumnsB {
  const T* base;
  int64_t step;  // from column to column

  template <class Tile>
  __attribute__((noinline)) void panel(int64_t k, int64_t depth, int64_t column, int count, int width, T* to) const {
    const T* from[Tile::kMostColumns];  // columns behind the last one are copies of it that nobody reads
    for (int i = 0; i < width; ++i) from[i] = base + (column + std::min(i, count - 1)) * step + k;
    Tile::transpose(from, width, depth, to);
  }
};

template <typename T>
ColumnsB(const T*, int64_t) -> ColumnsB<T>;

// All of B, packed before: panels [k][width] one after the other, anything behind the last column.
template <class Tile>
struct PackedB {
  using Weight = typename Tile::Weight;
  const Weight* base;
  int64_t n, k;
  const Weight* then = nullptr;  // what is multiplied next, if that is known

  static int64_t numbers(int64_t n, int64_t k) {
    return (n + Tile::kLeastColumns - 1) / Tile::kLeastColumns * Tile::kLeastColumns * k;
  }
  // Packs the columns of [n,k].
  template <class B>
  static void pack(const B& from, int64_t n, int64_t k, Weight* to) {
    for (int64_t j = 0, width; j < n; j += width) {
      width = panel_width<Tile>(n - j);
      const int count = static_cast<int>(std::min(width, n - j));
      from.template panel<Tile>(0, k, j, count, static_cast<int>(width), to + j * k);
    }
  }

  // How wide the panel is that starts with a column.
  int64_t width(int64_t column) const { return panel_width<Tile>(n - column); }
};

// Whether all panels of a source lie ready.
template <class B>
constexpr bool kIsPacked = false;
template <class Tile>
inline constexpr bool kIsPacked<PackedB<Tile>> = true;

}  // namespace lite
