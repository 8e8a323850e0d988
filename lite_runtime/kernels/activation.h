#pragma once

#include <algorithm>
#include <cmath>

#include "gen/op_table.h"

namespace lite {

// Numbers that an activation does no more than keep results between.
struct Limits {
  float low, high;
};
inline Limits limits_of(Activation kind) {
  constexpr float kInfinity = __builtin_huge_valf();
  if (kind == Activation::relu) return {0.0f, kInfinity};
  if (kind == Activation::relu6) return {0.0f, 6.0f};
  return {-kInfinity, kInfinity};
}
// Whether those are all that it does.
inline bool only_limits(Activation kind) {
  return kind == Activation::none || kind == Activation::relu || kind == Activation::relu6;
}

// What an operator may apply to each element of its result; the formulas are those of the
// elementwise operators of the same names.
inline float activate(Activation kind, float x) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return std::max(x, 0.0f);
    case Activation::relu6:
      return std::min(std::max(x, 0.0f), 6.0f);
    case Activation::hard_swish:
      return x * std::min(std::max(x + 3.0f, 0.0f), 6.0f) / 6.0f;
    case Activation::sigmoid:
      return 1.0f / (1.0f + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::silu:
      return x / (1.0f + std::exp(-x));
    case Activation::gelu:
      return 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
  }
  return x;
}

}  // namespace lite
