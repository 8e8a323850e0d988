#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

// Where an element is not a number, so is the result.

namespace lite {

// An operator on floats that is one formula in x, or in a and b.
#define UNARY(op, formula)                                                      \
  CHECK(op) { return check_same(call); }                                        \
  KERNEL(op, f32, ref) {                                                        \
    return unary<float, float>(call, [](float x) -> float { return formula; }); \
  }
#define BINARY(op, formula)                                                               \
  CHECK(op) { return check_binary(call); }                                                \
  KERNEL(op, f32, ref) {                                                                  \
    return binary<float, float>(call, [](float a, float b) -> float { return formula; }); \
  }
// The same on 32-bit integers, which wrap around as numpy's do: hence unsigned.
#define BINARY_I32(op, T, formula)                                    \
  KERNEL(op, i32, ref) {                                              \
    return binary<T, T>(call, [](T a, T b) -> T { return formula; }); \
  }

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, (a * b))
BINARY(div, a / b)
BINARY(pow, std::pow(a, b))
BINARY(maximum, a > b || a != a ? a : b)
BINARY(minimum, a < b || a != a ? a : b)
BINARY_I32(add, uint32_t, a + b)
BINARY_I32(sub, uint32_t, a - b)
BINARY_I32(mul, uint32_t, (a * b))
BINARY_I32(maximum, int32_t, std::max(a, b))
BINARY_I32(minimum, int32_t, std::min(a, b))

UNARY(neg, -x)
UNARY(abs, std::abs(x))
UNARY(exp, std::exp(x))
UNARY(log, std::log(x))
UNARY(sqrt, std::sqrt(x))
UNARY(reciprocal, 1.0f / x)
UNARY(relu, x < 0 ? 0.0f : x)
UNARY(tanh, std::tanh(x))
UNARY(erf, std::erf(x))
UNARY(sin, std::sin(x))
UNARY(cos, std::cos(x))
UNARY(floor, std::floor(x))
UNARY(ceil, std::ceil(x))
UNARY(round, std::nearbyint(x))
UNARY(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x)
UNARY(softplus, std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))))

KERNEL(neg, i32, ref) {
  return unary<uint32_t, uint32_t>(call, [](uint32_t x) { return 0 - x; });
}

namespace {

float logistic(float x) {
  const float e = std::exp(-std::abs(x));
  return (x >= 0 ? 1.0f : e) / (1.0f + e);
}

float limited(float x, float low, float high) { return std::min(std::max(x, low), high); }

float gelu_exact(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }

float gelu_by_tanh(float x) { return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x))); }

}  // namespace

UNARY(sigmoid, logistic(x))
UNARY(silu, logistic(x) * x)
UNARY(hard_swish, limited(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f) * x)

CHECK(clip) { return check_same(call); }
KERNEL(clip, f32, ref) {
  return unary<float, float>(call, [a = call.attrs](float x) { return limited(x, a.low, a.high); });
}

CHECK(leaky_relu) { return check_same(call); }
KERNEL(leaky_relu, f32, ref) {
  return unary<float, float>(call, [a = call.attrs](float x) { return x > 0 ? x : a.alpha * x; });
}

CHECK(elu) { return check_same(call); }
KERNEL(elu, f32, ref) {
  return unary<float, float>(call, [a = call.attrs](float x) { return x > 0 ? x : a.alpha * std::expm1(x); });
}

CHECK(gelu) { return check_same(call); }
KERNEL(gelu, f32, ref) {
  return unary<float, float>(call, call.attrs.approximate == Approximate::tanh ? gelu_by_tanh : gelu_exact);
}

CHECK(hard_sigmoid) { return check_same(call); }
KERNEL(hard_sigmoid, f32, ref) {
  return unary<float, float>(call, [a = call.attrs](float x) { return limited(a.alpha * x + a.beta, 0.0f, 1.0f); });
}

CHECK(stop_gradient) { return check_same(call); }
KERNEL(stop_gradient, any, ref) { return copy_all(call); }

}  // namespace lite
