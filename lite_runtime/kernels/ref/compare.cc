#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

// Truth values are bytes. Those of a file may hold more than 0 and 1: all but 0 are true.

namespace lite {

#define COMPARISON(op, sign)                                                              \
  CHECK(op) { return check_binary(call, DType::boolean); }                                \
  KERNEL(op, f32, ref) {                                                                  \
    return binary<float, uint8_t>(call, [](float a, float b) { return a sign b; });       \
  }                                                                                       \
  KERNEL(op, i32, ref) {                                                                  \
    return binary<int32_t, uint8_t>(call, [](int32_t a, int32_t b) { return a sign b; }); \
  }                                                                                       \
  KERNEL(op, i64, ref) {                                                                  \
    return binary<int64_t, uint8_t>(call, [](int64_t a, int64_t b) { return a sign b; }); \
  }

COMPARISON(equal, ==)
COMPARISON(less, <)
COMPARISON(greater, >)
COMPARISON(less_equal, <=)
COMPARISON(greater_equal, >=)

KERNEL(equal, boolean, ref) {
  return binary<uint8_t, uint8_t>(call, [](uint8_t a, uint8_t b) { return (a != 0) == (b != 0); });
}

CHECK(logical_not) { return check_same(call); }
KERNEL(logical_not, boolean, ref) {
  return unary<uint8_t, uint8_t>(call, [](uint8_t x) { return x == 0; });
}

CHECK(logical_and) { return check_binary(call); }
KERNEL(logical_and, boolean, ref) {
  return binary<uint8_t, uint8_t>(call, [](uint8_t a, uint8_t b) { return a != 0 && b != 0; });
}

CHECK(logical_or) { return check_binary(call); }
KERNEL(logical_or, boolean, ref) {
  return binary<uint8_t, uint8_t>(call, [](uint8_t a, uint8_t b) { return a != 0 || b != 0; });
}

CHECK(where) {
  const Tensor &cond = call.in[0], &a = call.in[1], &b = call.in[2], &y = call.y();
  return call.inputs == 3 && cond.dtype == DType::boolean && a.dtype == b.dtype && a.dtype == y.dtype &&
         stretches_to(cond.shape, y.shape) && stretches_to(a.shape, y.shape) && stretches_to(b.shape, y.shape);
}
KERNEL(where, any, ref) {
  with_element(size_of(call.y().dtype), [&](auto element) {
    using T = decltype(element);
    const Ints& shape = call.y().shape;
    const int64_t n = call.y().elements();
    for (int64_t i = 0; i < n; ++i) {
      const bool first = call.in[0].as<uint8_t>()[broadcast_offset(call.in[0].shape, shape, i)] != 0;
      const Tensor& source = call.in[first ? 1 : 2];
      call.y().as<T>()[i] = source.as<T>()[broadcast_offset(source.shape, shape, i)];
    }
  });
  return Status::kOk;
}

CHECK(is_nan) { return call.inputs == 1 && call.y().dtype == DType::boolean && same_shape(call.in[0], call.y()); }
KERNEL(is_nan, f32, ref) {
  return unary<float, uint8_t>(call, [](float x) { return std::isnan(x); });
}

}  // namespace lite
