// Nodes on single numbers, as loops have many of: a kernel's own preparations would take ten times as long.

#include "exec/scalar.h"

#include <cmath>
#include <cstring>

#include "gen/op_table.h"

namespace lite {
namespace {

template <typename T>
T& as(void* address) {
  return *static_cast<T*>(address);
}

#define UNARY(T, U, formula)        \
  return [](void* const* at) {      \
    const T x = as<const T>(at[0]); \
    as<U>(at[1]) = (formula);       \
  }
#define BINARY(T, U, formula)                               \
  return [](void* const* at) {                              \
    const T a = as<const T>(at[0]), b = as<const T>(at[1]); \
    as<U>(at[2]) = (formula);                               \
  }

Scalar of_floats(int op) {
  switch (op) {
    case code::add:
      BINARY(float, float, a + b);
    case code::sub:
      BINARY(float, float, a - b);
    case code::mul:
      BINARY(float, float, a* b);
    case code::div:
      BINARY(float, float, a / b);
    case code::maximum:
      BINARY(float, float, a > b || a != a ? a : b);
    case code::minimum:
      BINARY(float, float, a < b || a != a ? a : b);
    case code::neg:
      UNARY(float, float, -x);
    case code::abs:
      UNARY(float, float, std::fabs(x));
    case code::sqrt:
      UNARY(float, float, std::sqrt(x));
    case code::reciprocal:
      UNARY(float, float, 1.0f / x);
    case code::relu:
      UNARY(float, float, x < 0 ? 0.0f : x);
    case code::sign:
      UNARY(float, float, x > 0 ? 1.0f : x < 0 ? -1.0f : x);
    case code::equal:
      BINARY(float, uint8_t, a == b);
    case code::less:
      BINARY(float, uint8_t, a < b);
    case code::greater:
      BINARY(float, uint8_t, a > b);
    case code::less_equal:
      BINARY(float, uint8_t, a <= b);
    case code::greater_equal:
      BINARY(float, uint8_t, a >= b);
    case code::is_nan:
      UNARY(float, uint8_t, x != x);
  }
  return nullptr;
}

Scalar of_ints(int op) {
  switch (op) {
    case code::add:
      BINARY(uint32_t, uint32_t, a + b);
    case code::sub:
      BINARY(uint32_t, uint32_t, a - b);
    case code::mul:
      BINARY(uint32_t, uint32_t, a* b);
    case code::neg:
      UNARY(uint32_t, uint32_t, 0 - x);
    case code::maximum:
      BINARY(int32_t, int32_t, a > b ? a : b);
    case code::minimum:
      BINARY(int32_t, int32_t, a < b ? a : b);
    case code::equal:
      BINARY(int32_t, uint8_t, a == b);
    case code::less:
      BINARY(int32_t, uint8_t, a < b);
    case code::greater:
      BINARY(int32_t, uint8_t, a > b);
    case code::less_equal:
      BINARY(int32_t, uint8_t, a <= b);
    case code::greater_equal:
      BINARY(int32_t, uint8_t, a >= b);
  }
  return nullptr;
}

Scalar of_truths(int op) {
  switch (op) {
    case code::logical_not:
      UNARY(uint8_t, uint8_t, x == 0);
    case code::logical_and:
      BINARY(uint8_t, uint8_t, a != 0 && b != 0);
    case code::logical_or:
      BINARY(uint8_t, uint8_t, a != 0 || b != 0);
  }
  return nullptr;
}

#undef UNARY
#undef BINARY

template <typename T>
void choose(void* const* at) {
  std::memcpy(at[3], as<const uint8_t>(at[0]) != 0 ? at[1] : at[2], sizeof(T));
}

}  // namespace

Scalar find_scalar(int op, const Tensor* in, int inputs, const Tensor* out, int results) {
  if (inputs == 0 || results != 1 || out[0].elements() != 1) return nullptr;
  for (int i = 0; i < inputs; ++i) {
    if (!in[i].present() || in[i].elements() != 1) return nullptr;
  }
  if (op == code::where) {
    const size_t size = size_of(out[0].dtype);
    return size == 4 ? choose<uint32_t> : size == 1 ? choose<uint8_t> : nullptr;
  }
  switch (in[0].dtype) {
    case DType::f32:
      return of_floats(op);
    case DType::i32:
      return of_ints(op);
    case DType::boolean:
      return of_truths(op);
    default:
      return nullptr;
  }
}

}  // namespace lite
