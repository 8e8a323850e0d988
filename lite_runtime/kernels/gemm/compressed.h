#pragma once

#include "kernels/compressed.h"
#include "kernels/gemm/linalg.h"

// Layers on compressed weights: blocks of them become floats in the first cache and are multiplied there. A product of
// few rows reads half to an eighth of the bytes that float weights have.

namespace lite {

// `I`: integer vectors (int8/elements.h says which).
template <class I>
struct Expand {
  using F = typename I::F;
  const StoredRows& rows;

  // Elements [k, k + count) of a row, k a multiple of kNibbles. `to` has room for whole blocks of kNibbles.
  void ahead(int64_t row, int64_t k, int64_t count, float* to) const {
    if (rows.bits == 16) return halves(rows.halves(row) + k, count, to);
    if (rows.group % kNibbles != 0) return one_by_one(row, k, count, to);
    const int64_t end = k + count;
    const int64_t group = rows.group > 0 ? rows.group : std::max<int64_t>(end, 1);  // a row may be empty
    for (int64_t at = k / group; k < end; ++at) {                                   // from one scale to the next
      const int64_t next = std::min(end, (at + 1) * group);
      const auto scale = F::all(rows.scale_of(row, at));
      if (rows.bits == 8) {
        bytes(rows.bytes(row) + k, next - k, scale, to);
      } else {
        nibbles(rows.bytes(row) + k / 2, next - k, scale, to);
      }
      to += next - k;
      k = next;
    }
  }

  // A whole row, and nothing behind it.
  void whole(int64_t row, float* to) const {
    const int64_t full = rows.n / kNibbles * kNibbles, rest = rows.n - full;
    ahead(row, 0, full, to);
    if (rest == 0) return;
    float last[kNibbles];
    ahead(row, full, rest, last);
    std::copy_n(last, rest, to + full);
  }

 private:
  static void bytes(const int8_t* from, int64_t count, typename F::V scale, float* to) {
    int64_t i = 0;
    for (; i + I::kLanes <= count; i += I::kLanes) F::store(to + i, I::to_float(I::load_bytes(from + i)) * scale);
    if (i == count) return;
    int8_t last[I::kLanes] = {};
    std::copy_n(from + i, count - i, last);
    F::store(to + i, I::to_float(I::load_bytes(last)) * scale);
  }

  static void nibbles(const int8_t* from, int64_t count, typename F::V scale, float* to) {
    for (int64_t at = 0; at < count; at += kNibbles, from += kNibbles / 2) {
      int8_t levels[kNibbles];
      for (int i = 0; i < kNibbles / 2; ++i) {
        levels[i] = static_cast<int8_t>((from[i] & 15) - 8);
        levels[i + kNibbles / 2] = static_cast<int8_t>((static_cast<uint8_t>(from[i]) >> 4) - 8);
      }
#pragma GCC unroll 8
      for (int i = 0; i < kNibbles; i += I::kLanes) {
        F::store(to + at + i, I::to_float(I::load_bytes(levels + i)) * scale);
      }
    }
  }

  static void halves(const Half* from, int64_t count, float* to) {
    int64_t i = 0;
    for (; i + I::kLanes <= count; i += I::kLanes) F::store(to + i, I::load_halves(from + i));
    if (i == count) return;
    Half last[I::kLanes] = {};
    std::copy_n(from + i, count - i, last);
    F::store(to + i, I::load_halves(last));
  }

  void one_by_one(int64_t row, int64_t k, int64_t count, float* to) const {
    for (int64_t i = 0; i < count; ++i) to[i] = rows.at(row, k + i);
  }
};

// Column j of B is a stored row; a source as sources.h has them.
template <class I>
struct CompressedB {
  Expand<I> expand;

  template <class Tile>
  void panel(int64_t k, int64_t depth, int64_t column, int count, int width, float* to) const {
    constexpr int kDepth = Gemm<Tile>::kDepth;
    static_assert(kDepth % kNibbles == 0, "blocks are whole");
    alignas(64) float rows[Tile::kMostColumns][kDepth];
    const float* from[Tile::kMostColumns];  // columns behind the last one are copies of it that nobody reads
    for (int i = 0; i < count; ++i) expand.ahead(column + i, k, depth, rows[i]);
    for (int i = 0; i < width; ++i) from[i] = rows[std::min(i, count - 1)];
    Tile::transpose(from, width, depth, to);
  }
};

// y = activation(x w^T + b) for few rows of x: each block of weights is expanded once for all of them.
template <class Isa, class I>
void compressed_dots(const Context& context, int64_t m, const float* x, const StoredRows& w, const float* bias,
                     Activation activation, float* y) {
  using Tile = DotTile<Isa>;
  constexpr int kColumns = Tile::kColumns, kBlock = 512;
  const int64_t n = w.w.dim(0), k = w.n, groups = (n + kColumns - 1) / kColumns;
  const Expand<I> expand = {w};
  parallel_for(context.pool, groups, share(groups, 2 * kColumns * (m + 2) * (k + 16)), [&](int64_t begin, int64_t end) {
    alignas(64) float rows[kColumns][kBlock];
    const float* b_rows[kColumns];
    for (int i = 0; i < kColumns; ++i) b_rows[i] = rows[i];
    for (int64_t j = begin * kColumns; j < std::min(end * kColumns, n); j += kColumns) {
      const int count = static_cast<int>(std::min<int64_t>(kColumns, n - j));
      const auto start = [&](int64_t at) {
        return at == 0 && bias != nullptr ? Isa::load(bias + j, count) : Isa::all(0.0f);
      };
      for (int64_t at = 0; at == 0 || at < k; at += kBlock) {
        const int64_t depth = std::min<int64_t>(kBlock, k - at);
        for (int i = 0; i < kColumns; ++i) expand.ahead(std::min(j + i, n - 1), at, depth, rows[i]);
        for (int64_t r = 0; r < m; r += Tile::kRows) {
          const int height = static_cast<int>(std::min<int64_t>(Tile::kRows, m - r));
          const float* a_rows[Tile::kRows];
          float sums[Tile::kRows][kColumns];
          for (int i = 0; i < height; ++i) a_rows[i] = x + (r + i) * k + at;
          Tile::run(height, depth, a_rows, b_rows, sums);
          for (int i = 0; i < height; ++i) {
            float* to = y + (r + i) * n + j;
            const auto before = at == 0 ? start(at) : Isa::load(to, count);
            const auto sum = Isa::load(sums[i], kColumns) + before;
            Isa::store(to, at + kBlock >= k ? vactivate<Isa>(activation, sum) : sum, count);
          }
        }
      }
    }
  });
}

template <class Tile, class I>
Status compressed_linear(const Call<compressed_linear_attrs>& call) {
  const StoredRows w = stored_rows(call);
  const float* bias = call.optional(3) != nullptr ? call.optional(3)->f32() : nullptr;
  const int64_t n = w.w.dim(0);
  int64_t m = 1;
  for (int i = 0; i + 1 < call.in[0].rank(); ++i) m *= call.in[0].dim(i);
  const float* x = call.in[0].f32();
  if (dots_pay<Tile>(m, w.n)) {
    compressed_dots<typename Tile::Isa, I>(call.context, m, x, w, bias, call.attrs.activation, call.y().f32());
  } else {
    Gemm<Tile>::run(call.context, m, n, w.n, RowsA{x, w.n}, CompressedB<I>{{w}}, RowsC{call.y().f32(), n},
                    {bias, call.attrs.activation});
  }
  return Status::kOk;
}
// The layer on weights of 16 bits, for instruction sets with a micro-kernel for them.
template <class Tile, class Halves>
LinearLayer<Tile, Halves> halves_layer(const Call<compressed_linear_attrs>& call) {
  return {{call.in[0], call.in[1], nullptr, call.optional(3)}, call, call.attrs.activation};
}

template <class Tile>
uint64_t compressed_linear_scratch(const Call<compressed_linear_attrs>& call) {
  return Gemm<Tile>::scratch_bytes(call.in[1].dim(0), call.in[0].dim(-1));
}

template <class I>
Status compressed_gather(const Call<compressed_gather_attrs>& call) {
  const StoredRows w = stored_rows(call);
  const int32_t* at = call.in[1].i32();
  const int64_t count = call.in[1].elements();
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < 0 || at[i] >= w.w.dim(0)) return Status::kBadIndex;
  }
  float* y = call.y().f32();
  parallel_for(call.context.pool, count, share(count, w.n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Expand<I>{w}.whole(at[i], y + i * w.n);
  });
  return Status::kOk;
}

template <class I>
Status decompress(const Call<decompress_attrs>& call) {
  const StoredRows w = stored_rows(call);
  float* y = call.y().f32();
  const int64_t rows = w.w.dim(0);
  parallel_for(call.context.pool, rows, share(rows, w.n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) Expand<I>{w}.whole(i, y + i * w.n);
  });
  return Status::kOk;
}

}  // namespace lite
