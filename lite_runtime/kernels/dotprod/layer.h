#pragma once

#include "kernels/neon/layer.h"

namespace lite {

// Layers on int8 with dot products of four numbers.
struct NeonDot : NeonLayer<NeonDot> {
  using Sum = V;

  static constexpr int rows_of(int vectors) { return vectors == 4 ? 6 : 8; }
  static Sum start(V v) { return v; }
  static V total(Sum sum) { return sum; }
  static Sum dot(Sum sum, V x, V w) { return vdotq_s32(sum, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w)); }
};

}  // namespace lite
