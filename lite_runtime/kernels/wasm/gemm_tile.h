#pragma once

#include "kernels/gemm/sources.h"
#include "kernels/wasm/vector.h"

namespace lite {

// The micro-kernel gemm_4x8_f32: 8 accumulators, 2 vectors of B, an element of A and a product fill 12 of the 16
// registers that engines have on x86.
struct WasmTile {
  using Isa = Wasm;
  using V = Wasm::V;
  static constexpr int kRows = 4, kColumns = 8, kLeastColumns = kColumns;
  static constexpr bool kAnyColumns = false, kTakesOffsets = true;

  // C = A B + (add ? C : bias or 0) for `rows` rows of 8 columns, all of them; rows beyond are not touched. A's row r
  // has its element k at a[r][index(k)]; B's row k lies at b + k b_step.
  template <class Index>
  static void run(int rows, int, int64_t k, const float* const* a, Index index, const float* b, int64_t b_step,
                  float* const* c, const float* bias, bool add) {
    switch (rows) {
      case 1:
        return tile<1>(k, a, index, b, b_step, c, bias, add);
      case 2:
        return tile<2>(k, a, index, b, b_step, c, bias, add);
      case 3:
        return tile<3>(k, a, index, b, b_step, c, bias, add);
      default:
        return tile<4>(k, a, index, b, b_step, c, bias, add);
    }
  }

  // to[k][column] = from[column][k] for 8 columns.
  static void transpose(const float* const* from, int, int64_t k, float* to) {
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
      transpose_4x4(from, i, to + i * kColumns);
      transpose_4x4(from + 4, i, to + i * kColumns + 4);
    }
    for (; i < k; ++i) {
      for (int c = 0; c < kColumns; ++c) to[i * kColumns + c] = from[c][i];
    }
  }

 private:
  template <int R, class Index>
  static void tile(int64_t k, const float* const* a, Index index, const float* b, int64_t b_step, float* const* c,
                   const float* bias, bool add) {
    V acc[R][2];
    const V bias0 = bias != nullptr ? Wasm::load(bias) : Wasm::all(0.0f);
    const V bias1 = bias != nullptr ? Wasm::load(bias + 4) : Wasm::all(0.0f);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      acc[r][0] = add ? Wasm::load(c[r]) : bias0;
      acc[r][1] = add ? Wasm::load(c[r] + 4) : bias1;
    }
    const float* row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) row[r] = a[r];
    const ptrdiff_t b_next = static_cast<ptrdiff_t>(b_step);
    for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(k); ++i, b += b_next) {
      const ptrdiff_t at = static_cast<ptrdiff_t>(index(i));
      const V b0 = Wasm::load(b), b1 = Wasm::load(b + 4);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const V x = reinterpret_cast<V>(wasm_v128_load32_splat(row[r] + at));
        acc[r][0] += x * b0;
        acc[r][1] += x * b1;
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      float* const to = c[r];
      Wasm::store(to, acc[r][0]);
      Wasm::store(to + 4, acc[r][1]);
    }
  }

  static void transpose_4x4(const float* const* from, int64_t k, float* to) {
    const v128_t a = wasm_v128_load(from[0] + k), b = wasm_v128_load(from[1] + k);
    const v128_t c = wasm_v128_load(from[2] + k), d = wasm_v128_load(from[3] + k);
    const v128_t ab0 = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab1 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    const v128_t cd0 = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd1 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    wasm_v128_store(to, wasm_i64x2_shuffle(ab0, cd0, 0, 2));
    wasm_v128_store(to + kColumns, wasm_i64x2_shuffle(ab0, cd0, 1, 3));
    wasm_v128_store(to + 2 * kColumns, wasm_i64x2_shuffle(ab1, cd1, 0, 2));
    wasm_v128_store(to + 3 * kColumns, wasm_i64x2_shuffle(ab1, cd1, 1, 3));
  }
};

}  // namespace lite
