#include "kernels/vector/pool.h"

#include <cstring>

#include "kernels/kernels.h"
#include "kernels/neon/vector.h"

namespace lite {
namespace {

struct Bytes {
  using V = int8x16_t;
  static constexpr int kLanes = 16;

  static V load(const int8_t* p, int n) {
    if (n == kLanes) return vld1q_s8(p);
    int8_t some[kLanes] = {};
    std::memcpy(some, p, static_cast<size_t>(n));
    return vld1q_s8(some);
  }
  static void store(int8_t* p, V v, int n) {
    if (n == kLanes) return vst1q_s8(p, v);
    int8_t some[kLanes];
    vst1q_s8(some, v);
    std::memcpy(p, some, static_cast<size_t>(n));
  }
  static V all(int8_t x) { return vdupq_n_s8(x); }
  static V max(V a, V b) { return vmaxq_s8(a, b); }
};

}  // namespace

KERNEL(max_pool2d, f32, neon) { return vector_max_pool2d<Neon, float>(call); }
KERNEL(max_pool2d, i8, neon) { return vector_max_pool2d<Bytes, int8_t>(call); }
KERNEL(max_pool2d_dx, f32, neon) { return vector_max_pool2d_dx<Neon>(call); }
KERNEL(avg_pool2d, f32, neon) { return vector_avg_pool2d<Neon>(call); }
KERNEL(avg_pool2d_dx, f32, neon) { return vector_avg_pool2d_dx<Neon>(call); }

}  // namespace lite
