#pragma once

#include "kernels/gemm/tile.h"
#include "kernels/wasm/vector.h"

namespace lite {

// The micro-kernel gemm_4x8_f32: 8 accumulators, 2 vectors of B, an element of A and a product fill 12 of the 16
// registers that engines have on x86.
struct WasmTile : BroadcastTile<Wasm, 4, 2, 1> {
  // to[k][column] = from[column][k] for `width` columns, a multiple of 4.
  static void transpose(const float* const* from, int width, int64_t k, float* to) {
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
      for (int c = 0; c < width; c += 4) transpose_4x4(from + c, i, to + i * width + c, width);
    }
    for (; i < k; ++i) {
      for (int c = 0; c < width; ++c) to[i * width + c] = from[c][i];
    }
  }

 private:
  static void transpose_4x4(const float* const* from, int64_t k, float* to, int64_t to_step) {
    const v128_t a = wasm_v128_load(from[0] + k), b = wasm_v128_load(from[1] + k);
    const v128_t c = wasm_v128_load(from[2] + k), d = wasm_v128_load(from[3] + k);
    const v128_t ab0 = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5), ab1 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    const v128_t cd0 = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5), cd1 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    wasm_v128_store(to, wasm_i64x2_shuffle(ab0, cd0, 0, 2));
    wasm_v128_store(to + to_step, wasm_i64x2_shuffle(ab0, cd0, 1, 3));
    wasm_v128_store(to + 2 * to_step, wasm_i64x2_shuffle(ab1, cd1, 0, 2));
    wasm_v128_store(to + 3 * to_step, wasm_i64x2_shuffle(ab1, cd1, 1, 3));
  }
};

}  // namespace lite
