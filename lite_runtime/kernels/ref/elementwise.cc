#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {

CHECK(add) { return check_binary(call); }
KERNEL(add, f32, ref) {
  return binary<float, float>(call, [](float a, float b) { return a + b; });
}
KERNEL(add, i32, ref) {  // wraps around, as numpy does
  return binary<uint32_t, uint32_t>(call, [](uint32_t a, uint32_t b) { return a + b; });
}

CHECK(mul) { return check_binary(call); }
KERNEL(mul, f32, ref) {
  return binary<float, float>(call, [](float a, float b) { return a * b; });
}
KERNEL(mul, i32, ref) {
  return binary<uint32_t, uint32_t>(call, [](uint32_t a, uint32_t b) { return a * b; });
}

CHECK(sigmoid) { return check_same(call); }
KERNEL(sigmoid, f32, ref) {
  return unary<float, float>(call, [](float x) {
    const float e = std::exp(-std::abs(x));
    return (x >= 0 ? 1.0f : e) / (1.0f + e);
  });
}

CHECK(softplus) { return check_same(call); }
KERNEL(softplus, f32, ref) {
  return unary<float, float>(call, [](float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); });
}

}  // namespace lite
