#pragma once

#include "core/kernel.h"
#include "kernels/vector/norm.h"

// Losses, for any instruction set.

namespace lite {

// Whether every label is a class.
inline bool labels_in_range(const Tensor& labels, int classes) {
  const int32_t* label = labels.i32();
  for (int i = 0; i < labels.dim(0); ++i) {
    if (label[i] < 0 || label[i] >= classes) return false;
  }
  return true;
}

template <class Isa>
Status vector_softmax_cross_entropy(const Call<softmax_cross_entropy_attrs>& call) {
  const int64_t rows = call.in[0].dim(0), classes = call.in[0].dim(1);
  if (!labels_in_range(call.in[1], call.in[0].dim(1))) return Status::kBadIndex;
  for_rows(call.context.pool, rows, classes, 32, [&](int64_t row) {
    const float* x = call.in[0].f32() + row * classes;
    call.y().f32()[row] = row_log_sum_exp<Isa>(x, classes) - x[call.in[1].i32()[row]];
  });
  return Status::kOk;
}

template <class Isa>
Status vector_softmax_cross_entropy_dx(const Call<softmax_cross_entropy_dx_attrs>& call) {
  const int64_t rows = call.in[1].dim(0), classes = call.in[1].dim(1);
  if (!labels_in_range(call.in[2], call.in[1].dim(1))) return Status::kBadIndex;
  for_rows(call.context.pool, rows, classes, 32, [&](int64_t row) {
    const float g = call.in[0].f32()[row];
    float* y = call.y().f32() + row * classes;
    const auto factor = Isa::all(g / row_exp<Isa>(call.in[1].f32() + row * classes, classes, y));
    over<Isa>(classes, [&](int64_t i, int lanes) { Isa::store(y + i, Isa::load(y + i, lanes) * factor, lanes); });
    y[call.in[2].i32()[row]] -= g;
  });
  return Status::kOk;
}

}  // namespace lite
