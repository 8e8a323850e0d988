#include "kernels/kernels.h"
#include "kernels/neon/fixed_point.h"
#include "kernels/quantized_layers.h"

namespace lite {
namespace {

// Sums of one position: channels 0 to 3 and 4 to 7 of a block.
struct Sums {
  int32x4_t a = vdupq_n_s32(0), b = vdupq_n_s32(0);

  template <int kLane>
  void add_lane(int16x4_t x, int16x8_t w) {
    a = vmlal_lane_s16(a, vget_low_s16(w), x, kLane);
    b = vmlal_lane_s16(b, vget_high_s16(w), x, kLane);
  }

  // Four channels of x, four rows of weights.
  void add(const int16_t* x, const int16x8_t* w) {
    const int16x4_t v = vld1_s16(x);
    add_lane<0>(v, w[0]);
    add_lane<1>(v, w[1]);
    add_lane<2>(v, w[2]);
    add_lane<3>(v, w[3]);
  }

  void add_each(int16x8_t x, int16x8_t w) {
    a = vmlal_s16(a, vget_low_s16(x), vget_low_s16(w));
    b = vmlal_s16(b, vget_high_s16(x), vget_high_s16(w));
  }
};

struct Neon {
  static constexpr int kChannels = 8, kDepth = 4;

  class Finish {
   public:
    Finish(const int32_t* channels, const Stored& stored)
        : a_(Scale::of_channels(channels)), b_(Scale::of_channels(channels + 4)), bound_(stored) {}

    void operator()(const Sums& sums, int8_t* y, int width) const {
      const int8x8_t bytes = to_int8(bound_(a_(sums.a)), bound_(b_(sums.b)));
      if (width == kChannels) {
        vst1_s8(y, bytes);
        return;
      }
      int8_t buffer[kChannels];
      vst1_s8(buffer, bytes);
      std::memcpy(y, buffer, static_cast<size_t>(width));
    }

   private:
    Scale a_, b_;
    Bound bound_;
  };

  template <typename T>
  static void finish_tile(const Tile<T>& tile, const Sums* sums, const Finish& finish, int width) {
    for (int i = 0; i < tile.count; ++i) finish(sums[i], tile.y[i], width);
  }

  static void widen(const int8_t* x, int64_t n, int zero, int16_t* y) {
    const int16x8_t zeros = vdupq_n_s16(static_cast<int16_t>(zero));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) vst1q_s16(y + i, vsubq_s16(vmovl_s8(vld1_s8(x + i)), zeros));
    for (; i < n; ++i) y[i] = static_cast<int16_t>(x[i] - zero);
  }

  // y[d][k], up to a depth that is a multiple of kDepth.
  static void pack(const int8_t* w, int64_t stride, int64_t results, int64_t depth, int16_t* y) {
    for (int64_t d = 0; d < round_up(depth, kDepth); ++d) {
      for (int64_t k = 0; k < kChannels; ++k) *y++ = k < results && d < depth ? w[k * stride + d] : int16_t{0};
    }
  }

  static void multiply(const OldLayer& layer, const Steps& steps, int64_t depth, const Tile<int16_t>& tile,
                       const int16_t* w, const Finish& finish, int width) {
    Sums s0, s1, s2, s3;
    for (int64_t i = 0; i < layer.r; ++i) {
      for (int64_t j = 0; j < layer.s; ++j) {
        const int64_t at = i * steps.row + j * steps.column;
        const int16_t *x0 = tile.x[0] + at, *x1 = tile.x[1] + at, *x2 = tile.x[2] + at, *x3 = tile.x[3] + at;
        for (int64_t d = 0; d < depth; d += kDepth, w += kDepth * kChannels) {
          const int16x8_t rows[kDepth] = {vld1q_s16(w), vld1q_s16(w + 8), vld1q_s16(w + 16), vld1q_s16(w + 24)};
          s0.add(x0 + d, rows);
          s1.add(x1 + d, rows);
          s2.add(x2 + d, rows);
          s3.add(x3 + d, rows);
        }
      }
    }
    const Sums sums[4] = {s0, s1, s2, s3};
    finish_tile(tile, sums, finish, width);
  }

  // y[place][channel]
  static void pack_depthwise(const OldLayer& layer, const int8_t* w, int64_t channels, int16_t* y) {
    for (int64_t place = 0; place < layer.r * layer.s; ++place, w += layer.channels) {
      for (int64_t c = 0; c < kChannels; ++c) *y++ = c < channels ? w[c] : int16_t{0};
    }
  }

  static void multiply_depthwise(const OldLayer& layer, const Steps& steps, const Tile<int8_t>& tile, const int16_t* w,
                                 const Finish& finish, int width) {
    Sums s0, s1, s2, s3;
    for (int64_t i = 0; i < layer.r; ++i) {
      for (int64_t j = 0; j < layer.s; ++j, w += kChannels) {
        const int64_t at = i * steps.row + j * steps.column;
        const int16x8_t v = vld1q_s16(w);
        s0.add_each(vmovl_s8(vld1_s8(tile.x[0] + at)), v);
        s1.add_each(vmovl_s8(vld1_s8(tile.x[1] + at)), v);
        s2.add_each(vmovl_s8(vld1_s8(tile.x[2] + at)), v);
        s3.add_each(vmovl_s8(vld1_s8(tile.x[3] + at)), v);
      }
    }
    const Sums sums[4] = {s0, s1, s2, s3};
    finish_tile(tile, sums, finish, width);
  }

  static void dots(const int16_t* x, const int8_t* const* w, int64_t depth, int32_t* sums) {
    Sums s0, s1, s2, s3;
    int64_t d = 0;
    for (; d + 8 <= depth; d += 8) {
      const int16x8_t v = vld1q_s16(x + d);
      s0.add_each(v, vmovl_s8(vld1_s8(w[0] + d)));
      s1.add_each(v, vmovl_s8(vld1_s8(w[1] + d)));
      s2.add_each(v, vmovl_s8(vld1_s8(w[2] + d)));
      s3.add_each(v, vmovl_s8(vld1_s8(w[3] + d)));
    }
    sums[0] = vaddvq_s32(vaddq_s32(s0.a, s0.b));
    sums[1] = vaddvq_s32(vaddq_s32(s1.a, s1.b));
    sums[2] = vaddvq_s32(vaddq_s32(s2.a, s2.b));
    sums[3] = vaddvq_s32(vaddq_s32(s3.a, s3.b));
    for (; d < depth; ++d) {
      for (int i = 0; i < 4; ++i) sums[i] = wrap32(int64_t{sums[i]} + x[d] * w[i][d]);
    }
  }
};

}  // namespace

SCRATCH(quantized_conv2d, i8, neon) { return conv_layer<Neon>(call).scratch().size(); }
KERNEL(quantized_conv2d, i8, neon) { return run_layer(conv_layer<Neon>(call), call); }

SCRATCH(quantized_depthwise_conv2d, i8, neon) { return depthwise_layer<Neon>(call).scratch().size(); }
KERNEL(quantized_depthwise_conv2d, i8, neon) { return run_layer(depthwise_layer<Neon>(call), call); }

SCRATCH(quantized_linear, i8, neon) { return linear_layer<Neon>(call).scratch().size(); }
KERNEL(quantized_linear, i8, neon) { return run_layer(linear_layer<Neon>(call), call); }

}  // namespace lite
