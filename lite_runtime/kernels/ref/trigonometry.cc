#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {

#define FUNCTION(op, f)                                                      \
  CHECK(op) { return check_same(call); }                                     \
  KERNEL(op, f32, ref) {                                                     \
    return unary<float, float>(call, [](float x) -> float { return f(x); }); \
  }

FUNCTION(tan, std::tan)
FUNCTION(asin, std::asin)
FUNCTION(acos, std::acos)
FUNCTION(atan, std::atan)
FUNCTION(sinh, std::sinh)
FUNCTION(cosh, std::cosh)
FUNCTION(asinh, std::asinh)
FUNCTION(acosh, std::acosh)
FUNCTION(atanh, std::atanh)

}  // namespace lite
