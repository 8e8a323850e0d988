#pragma once

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {

constexpr int64_t kStrip = 16;  // neighbours in x that are read together: as many rows of y are written side by side

// to[i * to_step + j] = from[j * step + i] for i below `rows` and j below n
template <typename T>
void transpose_strip(const T* from, int64_t step, int64_t rows, int64_t n, T* to, int64_t to_step) {
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[i * to_step + j] = from[j * step + i];
  }
}

// Transposes where neighbours in y are none in x; returns false where they are, and there is nothing to gain.
inline bool transpose_strips(const Call<transpose_attrs>& call) {
  const Tensor &x = call.in[0], &y = call.y();
  const Strides from = strides_of(x.shape), to = strides_of(y.shape);
  Walk walk, outer;
  for (int i = 0; i < y.rank(); ++i) walk.add(y.shape[i], from[call.attrs.perm[i]], to[i]);
  const int last = walk.rank - 1;
  if (last < 1 || walk.from[last] == 1 || y.elements() == 0) return false;
  int dense = 0;  // the axis of y whose neighbours are neighbours in x
  for (int i = 0; i < last; ++i) {
    if (walk.from[i] == 1) dense = i;
  }
  for (int i = 0; i < last; ++i) {
    if (i != dense) outer.add(walk.size[i], walk.from[i], walk.to[i]);
  }
  const int64_t n = walk.size[last], step = walk.from[last], rows = walk.size[dense], to_step = walk.to[dense];
  const int64_t strips = (rows + kStrip - 1) / kStrip, parts = y.elements() / (n * rows) * strips;
  with_element(size_of(y.dtype), [&](auto element) {
    using T = decltype(element);
    parallel_for(call.context.pool, parts, (1 << 14) / (n * kStrip), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Place place(outer, i / strips);
        const int64_t first = i % strips * kStrip;
        transpose_strip(x.as<T>() + place.from + first, step, std::min(kStrip, rows - first), n,
                        y.as<T>() + place.to + first * to_step, to_step);
      }
    });
  });
  return true;
}

}  // namespace lite
