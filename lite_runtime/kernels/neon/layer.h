#pragma once

#include <cstring>

#include "kernels/int8/tile.h"
#include "kernels/neon/int_vector.h"

namespace lite {

// From sums of W vectors of results to int8.
struct NeonFinish {
  static constexpr int kParts = 3;  // where sums start, multiplier, shift

  template <class Weights>
  static bool takes(const Weights&, int32_t, int) {
    return false;
  }

  template <int W>
  static void rows(bool, int count, const int32_t* sums, const int32_t* parameters, const Stored& stored, int8_t* y,
                   int64_t y_step, int width) {
    const auto scale_of = [parameters](int v) {
      const int32_t* parts = parameters + v * kParts * 4;
      return NeonScale(vld1q_s32(parts + 4), vld1q_s32(parts + 8));
    };
    const NeonScale scales[4] = {scale_of(0), scale_of(1 % W), scale_of(2 % W), scale_of(W - 1)};
    const int8x16_t low = vdupq_n_s8(static_cast<int8_t>(stored.low)),
                    high = vdupq_n_s8(static_cast<int8_t>(stored.high));
    const int16x8_t zero = vdupq_n_s16(static_cast<int16_t>(stored.zero));
    for (int r = 0; r < count; ++r, sums += W * 4, y += y_step) {
      int16x4_t words[4] = {};
#pragma GCC unroll 4
      for (int v = 0; v < W; ++v) words[v] = vqmovn_s32(scales[v](vld1q_s32(sums + v * 4)));
      const int8x8_t first = vqmovn_s16(vqaddq_s16(vcombine_s16(words[0], words[1]), zero));
      const int8x8_t second = W > 2 ? vqmovn_s16(vqaddq_s16(vcombine_s16(words[2], words[3]), zero)) : first;
      const int8x16_t bytes = vminq_s8(vmaxq_s8(vcombine_s8(first, second), low), high);
      if (width == 16) {
        vst1q_s8(y, bytes);
      } else if (width == 8) {
        vst1_s8(y, vget_low_s8(bytes));
      } else {
        int8_t buffer[16];
        vst1q_s8(buffer, bytes);
        std::memcpy(y, buffer, static_cast<size_t>(width));
      }
    }
  }
};

// What convolutions and linear layers on int8 with NEON share: an instruction set adds Sum, start, total, dot and
// rows_of.
template <class Isa>
struct NeonLayer : DotKernels<Isa> {
  using V = int32x4_t;
  using X = int8_t;
  using Weight = int8_t;
  using Finish = NeonFinish;
  static constexpr int kLanes = 4, kParts = NeonFinish::kParts, kTogether = 4, kOffset = 0, kMostVectors = 4;
  static constexpr bool kQuick = false;

  static V load(const void* from) { return vld1q_s32(static_cast<const int32_t*>(from)); }
  static void store(int32_t* to, V v) { vst1q_s32(to, v); }
  static void convert(const int8_t* x, int64_t n, int8_t* y) { std::memcpy(y, x, static_cast<size_t>(n)); }
  static V broadcast(const int8_t* x) { return vld1q_dup_s32(reinterpret_cast<const int32_t*>(x)); }
};

}  // namespace lite
