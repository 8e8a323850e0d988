#include <cstring>

#include "kernels/int8/conv.h"
#include "kernels/int8/depthwise.h"
#include "kernels/int8/kernels.h"
#include "kernels/int8/tile.h"
#include "kernels/kernels.h"
#include "kernels/wasm/fixed_point.h"

namespace lite {
namespace {

// From sums of W vectors of results to int8.
struct WasmFinish {
  static constexpr int kParts = 3;  // where sums start, multiplier, shift

  template <int W>
  static void rows(bool, int count, const int32_t* sums, const int32_t* parameters, const Stored& stored, int8_t* y,
                   int64_t y_step, int width) {
    const auto scale_of = [parameters](int v) {
      const int32_t* parts = parameters + v * kParts * 4;
      return WasmScale(wasm_v128_load(parts + 4), parts + 8);
    };
    const WasmScale first = scale_of(0), second = scale_of(W - 1);
    const v128_t low = wasm_i8x16_splat(static_cast<int8_t>(stored.low));
    const v128_t high = wasm_i8x16_splat(static_cast<int8_t>(stored.high));
    const v128_t zero = wasm_i16x8_splat(static_cast<int16_t>(stored.zero));
    for (int r = 0; r < count; ++r, sums += W * 4, y += y_step) {
      const v128_t a = first(wasm_v128_load(sums)), b = W > 1 ? second(wasm_v128_load(sums + 4)) : a;
      const v128_t words = wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(a, b), zero);
      const v128_t bytes = wasm_i8x16_min(wasm_i8x16_max(wasm_i8x16_narrow_i16x8(words, words), low), high);
      if (width == 8) {
        wasm_v128_store64_lane(y, bytes, 0);
      } else {
        int8_t buffer[8];
        wasm_v128_store64_lane(buffer, bytes, 0);
        std::memcpy(y, buffer, static_cast<size_t>(width));
      }
    }
  }
};

// Layers on int8 with dot products of pairs of 16-bit numbers.
struct WasmLayer : DotKernels<WasmLayer> {
  using V = v128_t;
  using Sum = v128_t;
  using X = int16_t;
  using Weight = int16_t;
  using Column = int16_t;
  using Finish = WasmFinish;
  static constexpr int kLanes = 4, kParts = WasmFinish::kParts, kTogether = 2, kOffset = 0, kMostVectors = 2;
  static constexpr int kRows = 2;
  static constexpr bool kQuick = false;

  static constexpr int rows_of(int vectors) { return vectors == 2 ? 4 : 8; }

  static V load(const void* from) { return wasm_v128_load(from); }
  static void store(int32_t* to, V v) { wasm_v128_store(to, v); }
  static Sum start(V v) { return v; }
  static V total(Sum sum) { return sum; }
  static V broadcast(const int16_t* x) { return wasm_v128_load32_splat(x); }
  static Sum dot(Sum sum, V x, V w) { return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(x, w)); }

  static void convert(const int8_t* x, int64_t n, int16_t* y) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) wasm_v128_store(y + i, wasm_i16x8_load8x8(x + i));
    for (; i < n; ++i) y[i] = x[i];
  }

  // Two rows of a block's channels: pairs of four channels in each of two vectors.
  static void interleave(int vectors, int width, const int8_t* const* rows, const int64_t* steps, int64_t count,
                         int16_t* to, int64_t to_step) {
    for (int64_t j = 0; j < count; ++j, to += to_step) {
      int8_t copies[2][8];
      const int8_t* at[2] = {rows[0] + j * steps[0], rows[1] + j * steps[1]};
      for (int i = 0; i < 2 && width < 8; ++i) {
        std::memcpy(copies[i], at[i], static_cast<size_t>(width));
        at[i] = copies[i];
      }
      const v128_t a = wasm_i16x8_load8x8(at[0]), b = wasm_i16x8_load8x8(at[1]);
      wasm_v128_store(to, wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
      if (vectors == 2) wasm_v128_store(to + 8, wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
    }
  }
};

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<WasmLayer>, wasm)
LITE_INT8_LAYER(quantized_depthwise_conv2d, Depthwise<WasmLayer>, wasm)
LITE_INT8_LAYER(quantized_linear, Conv<WasmLayer>, wasm)

}  // namespace lite
