#include "kernels/int8/conv.h"
#include "kernels/int8/depthwise.h"
#include "kernels/int8/kernels.h"
#include "kernels/kernels.h"
#include "kernels/neon/layer.h"

namespace lite {
namespace {

// Layers on int8 with what every 64-bit ARM has: products of 16 bits, added up by pairs.
struct NeonPairs : NeonLayer<NeonPairs> {
  struct Sum {
    int32x4_t low, high;  // of results 0 and 1, and of 2 and 3: two parts each
  };

  static constexpr int rows_of(int vectors) { return vectors == 4 ? 3 : vectors == 3 ? 4 : vectors == 2 ? 6 : 8; }

  static Sum start(V v) {
    const int32x4_t none = vdupq_n_s32(0);
    return {vzip1q_s32(v, none), vzip2q_s32(v, none)};
  }
  static V total(Sum sum) { return vpaddq_s32(sum.low, sum.high); }
  static Sum dot(Sum sum, V x, V w) {
    const int8x16_t a = vreinterpretq_s8_s32(x), b = vreinterpretq_s8_s32(w);
    return {vpadalq_s16(sum.low, vmull_s8(vget_low_s8(a), vget_low_s8(b))), vpadalq_s16(sum.high, vmull_high_s8(a, b))};
  }
};

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<NeonPairs>, neon)
LITE_INT8_LAYER(quantized_depthwise_conv2d, Depthwise<NeonPairs>, neon)
LITE_INT8_LAYER(quantized_linear, Conv<NeonPairs>, neon)

}  // namespace lite
