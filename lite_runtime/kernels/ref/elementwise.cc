#include <algorithm>
#include <cmath>
#include <type_traits>

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
// The same on integers, which wrap around as numpy's do: hence unsigned where they may.
#define BINARY_INTS(op, T32, T64, formula)                                      \
  KERNEL(op, i32, ref) {                                                        \
    return binary<T32, T32>(call, [](T32 a, T32 b) -> T32 { return formula; }); \
  }                                                                             \
  KERNEL(op, i64, ref) {                                                        \
    return binary<T64, T64>(call, [](T64 a, T64 b) -> T64 { return formula; }); \
  }
#define UNARY_INTS(op, T32, T64, formula)                               \
  KERNEL(op, i32, ref) {                                                \
    return unary<T32, T32>(call, [](T32 x) -> T32 { return formula; }); \
  }                                                                     \
  KERNEL(op, i64, ref) {                                                \
    return unary<T64, T64>(call, [](T64 x) -> T64 { return formula; }); \
  }

namespace {

// a / b without the fraction; 0 where b is 0, and the least number by -1 wraps around
template <typename T>
T quotient(T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  return b == 0 ? 0 : b == -1 ? static_cast<T>(0 - static_cast<Unsigned>(a)) : a / b;
}

// a^b by squares, wrapped around; without the fraction where b is negative
template <typename T>
T power(T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  Unsigned y = 1;
  for (Unsigned base = static_cast<Unsigned>(a); b > 0; b /= 2, base *= base) y *= b % 2 != 0 ? base : 1;
  return static_cast<T>(y);
}

}  // namespace

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, (a * b))
BINARY(div, a / b)
BINARY(pow, std::pow(a, b))
BINARY(maximum, a > b || a != a ? a : b)
BINARY(minimum, a < b || a != a ? a : b)
BINARY_INTS(add, uint32_t, uint64_t, a + b)
BINARY_INTS(sub, uint32_t, uint64_t, a - b)
BINARY_INTS(mul, uint32_t, uint64_t, (a * b))
BINARY_INTS(div, int32_t, int64_t, quotient(a, b))
BINARY_INTS(pow, int32_t, int64_t, power(a, b))
BINARY_INTS(maximum, int32_t, int64_t, std::max(a, b))
BINARY_INTS(minimum, int32_t, int64_t, std::min(a, b))

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

UNARY_INTS(neg, uint32_t, uint64_t, 0 - x)
UNARY_INTS(abs, uint32_t, uint64_t, x >> (8 * sizeof(x) - 1) != 0 ? 0 - x : x)
UNARY_INTS(sign, int32_t, int64_t, (x > 0) - (x < 0))

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
