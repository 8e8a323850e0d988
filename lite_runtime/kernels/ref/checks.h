#pragma once

#include "core/kernel.h"

// Questions that the checks of many operators ask.

namespace lite {

// Whether `call` has `least` to `most` inputs, and each that is there, and each of `results` results, has the type
// `dtype`. The first `least` inputs must be there.
template <typename Attrs>
bool has_inputs(const Call<Attrs>& call, int least, int most, DType dtype = DType::f32, int results = 1) {
  if (call.inputs < least || call.inputs > most) return false;
  for (int i = 0; i < call.inputs; ++i) {
    if (call.in[i].dtype != dtype && (i < least || call.in[i].present())) return false;
  }
  for (int i = 0; i < results; ++i) {
    if (call.out[i].dtype != dtype) return false;
  }
  return true;
}

// Whether `t` is a vector of `n` elements.
inline bool is_vector(const Tensor& t, int n) { return t.rank() == 1 && t.dim(0) == n; }

// How many rows a tensor has, where its last axis is a row.
inline int64_t rows_of(const Tensor& t) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < t.rank(); ++i) rows *= t.dim(i);
  return rows;
}

}  // namespace lite
