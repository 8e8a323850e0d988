#include "kernels/vector/pool.h"

#include <cstring>

#include "kernels/kernels.h"
#include "kernels/wasm/vector.h"

namespace lite {
namespace {

struct Bytes {
  using V = v128_t;
  static constexpr int kLanes = 16;

  static V load(const int8_t* p, int n) {
    if (n == kLanes) return wasm_v128_load(p);
    int8_t some[kLanes] = {};
    std::memcpy(some, p, static_cast<size_t>(n));
    return wasm_v128_load(some);
  }
  static void store(int8_t* p, V v, int n) {
    if (n == kLanes) return wasm_v128_store(p, v);
    int8_t some[kLanes];
    wasm_v128_store(some, v);
    std::memcpy(p, some, static_cast<size_t>(n));
  }
  static V all(int8_t x) { return wasm_i8x16_splat(x); }
  static V max(V a, V b) { return wasm_i8x16_max(a, b); }
};

}  // namespace

KERNEL(max_pool2d, f32, wasm) { return vector_max_pool2d<Wasm, float>(call); }
KERNEL(max_pool2d, i8, wasm) { return vector_max_pool2d<Bytes, int8_t>(call); }
KERNEL(max_pool2d_dx, f32, wasm) { return vector_max_pool2d_dx<Wasm>(call); }
KERNEL(avg_pool2d, f32, wasm) { return vector_avg_pool2d<Wasm>(call); }
KERNEL(avg_pool2d_dx, f32, wasm) { return vector_avg_pool2d_dx<Wasm>(call); }

}  // namespace lite
