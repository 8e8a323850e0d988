#pragma once

#include "core/kernel.h"
#include "kernels/activation.h"

namespace lite {

// The order of the steps of a recurrent layer over tensors [n,t,h].
struct Steps {
  int64_t n, t, h;
  bool reverse;

  // The row of tensors [n,t,...] that belongs to an example at a step, the first one being 0.
  int64_t at(int64_t step, int64_t example) const { return example * t + (reverse ? t - 1 - step : step); }

  // The state [h] of an example before a step; `first`, [n,h], stands before the first.
  const float* before(int64_t step, int64_t example, const float* states, const float* first) const {
    return step == 0 ? first + example * h : states + at(step - 1, example) * h;
  }
  // How far apart those states of neighbouring examples are.
  int64_t stride_before(int64_t step) const { return step == 0 ? h : t * h; }
};

inline Steps steps_of(const Tensor& states, bool reverse) {
  return {states.dim(0), states.dim(1), states.dim(2), reverse};
}

}  // namespace lite
