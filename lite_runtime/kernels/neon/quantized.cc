#include "kernels/int16/layers.h"
#include "kernels/int8/conv.h"
#include "kernels/int8/depthwise.h"
#include "kernels/int8/kernels.h"
#include "kernels/kernels.h"
#include "kernels/neon/columns.h"
#include "kernels/neon/layer.h"

namespace lite {
namespace {

// Layers on int8 with what every 64-bit ARM has: products of 16 bits, added up by pairs. Two products fit into 16 bits
// where no weight is -128; that is the short way.
struct NeonPairs : NeonLayer<NeonPairs> {
  struct Sum {
    int32x4_t low, high;  // of results 0 and 1, and of 2 and 3: two parts each
  };

  static constexpr int rows_of(int vectors) { return vectors == 4 ? 3 : vectors == 3 ? 4 : vectors == 2 ? 6 : 8; }

  template <class Weights>
  static bool takes(const Weights& weights, int32_t, int) {
    return !weights.has(-128);
  }

  static Sum start(V v) {
    const int32x4_t none = vdupq_n_s32(0);
    return {vzip1q_s32(v, none), vzip2q_s32(v, none)};
  }
  static V total(Sum sum) { return vpaddq_s32(sum.low, sum.high); }
  static Sum dot(Sum sum, V x, V w) {
    const int8x16_t a = vreinterpretq_s8_s32(x), b = vreinterpretq_s8_s32(w);
    return {vpadalq_s16(sum.low, vmull_s8(vget_low_s8(a), vget_low_s8(b))), vpadalq_s16(sum.high, vmull_high_s8(a, b))};
  }
  static Sum dot_two(Sum sum, V x0, V w0, V x1, V w1) {
    const int8x16_t a0 = vreinterpretq_s8_s32(x0), b0 = vreinterpretq_s8_s32(w0);
    const int8x16_t a1 = vreinterpretq_s8_s32(x1), b1 = vreinterpretq_s8_s32(w1);
    const int16x8_t low = vmull_s8(vget_low_s8(a0), vget_low_s8(b0)), high = vmull_high_s8(a0, b0);
    return {vpadalq_s16(sum.low, vmlal_s8(low, vget_low_s8(a1), vget_low_s8(b1))),
            vpadalq_s16(sum.high, vmlal_high_s8(high, a1, b1))};
  }

  static void multiply(bool quick, int rows, int vectors, const int8_t* const* x, const Pieces& pieces,
                       const int32_t* parameters, const int8_t* w, int32_t* sums) {
    if (!quick) return DotKernels::multiply(quick, rows, vectors, x, pieces, parameters, w, sums);
    with_number<kMostVectors>(vectors, [&](auto v) {
      constexpr int W = decltype(v)::kValue;
      with_number<rows_of(W)>(rows, [&](auto r) { twos<decltype(r)::kValue, W>(x, pieces, parameters, w, sums); });
    });
  }

 private:
  // DotKernels' tile with two steps at a time.
  template <int R, int W>
  static void twos(const int8_t* const* x, const Pieces& pieces, const int32_t* parameters, const int8_t* w,
                   int32_t* sums) {
    Sum acc[R][W];
#pragma GCC unroll 4
    for (int v = 0; v < W; ++v) {
      acc[0][v] = start(load(parameters + v * kParts * kLanes));
#pragma GCC unroll 8
      for (int r = 1; r < R; ++r) acc[r][v] = acc[0][v];
    }
    for (int64_t i = 0; i < pieces.lines; ++i) {
      for (int64_t j = 0; j < pieces.places; ++j) {
        int64_t d = i * pieces.line_step + j * pieces.place_step;
        const int64_t end = d + pieces.length;
        for (; d + 8 <= end; d += 8, w += W * 32) {
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const V x0 = broadcast(x[r] + d), x1 = broadcast(x[r] + d + 4);
#pragma GCC unroll 4
            for (int v = 0; v < W; ++v) {
              acc[r][v] = dot_two(acc[r][v], x0, load(w + 16 * v), x1, load(w + 16 * (W + v)));
            }
          }
        }
        for (; d < end; d += 4, w += W * 16) {
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) {
            const V x0 = broadcast(x[r] + d);
#pragma GCC unroll 4
            for (int v = 0; v < W; ++v) acc[r][v] = dot(acc[r][v], x0, load(w + 16 * v));
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < W; ++v) store(sums + (r * W + v) * kLanes, total(acc[r][v]));
    }
  }
};

// Layers on int16.
struct NeonShorts {
  using V = int32x4_t;
  static constexpr int64_t kShorts = 8;

  static V dot(V sum, const int16_t* x, const int16_t* w) {
    const int16x8_t a = vld1q_s16(x), b = vld1q_s16(w);
    return vmlal_high_s16(vmlal_s16(sum, vget_low_s16(a), vget_low_s16(b)), a, b);
  }
  static int64_t total(V sum) { return vaddlvq_s32(sum); }
  static void add_products(int32_t* sums, const int16_t* x, const int16_t* w) {
    const int16x8_t a = vld1q_s16(x), b = vld1q_s16(w);
    vst1q_s32(sums, vmlal_s16(vld1q_s32(sums), vget_low_s16(a), vget_low_s16(b)));
    vst1q_s32(sums + 4, vmlal_high_s16(vld1q_s32(sums + 4), a, b));
  }
};

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<NeonPairs>, neon)
LITE_INT8_LAYER(quantized_depthwise_conv2d, Depthwise<NeonColumns>, neon)
LITE_INT8_LAYER(quantized_linear, Conv<NeonPairs>, neon)

LITE_INT16_LAYER(quantized_conv2d, false, NeonShorts, neon)
LITE_INT16_LAYER(quantized_depthwise_conv2d, true, NeonShorts, neon)
LITE_INT16_LAYER(quantized_linear, false, NeonShorts, neon)

}  // namespace lite
