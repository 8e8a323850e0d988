#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

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

// Part P of three vectors a, b, c that are laid side by side, element by element.
template <int P, typename V, int... I>
V interleaved(V a, V b, V c, std::integer_sequence<int, I...>) {
  constexpr int kLanes = sizeof...(I), kFirst = P * kLanes;
  const V ab = __builtin_shufflevector(a, b, ((kFirst + I) / 3 + (kFirst + I) % 3 % 2 * kLanes)...);
  return __builtin_shufflevector(ab, c, ((kFirst + I) % 3 < 2 ? I : kLanes + (kFirst + I) / 3)...);
}

// Three planes become pixels: transpose_strip for n = to_step = 3, 16 bytes of each plane at a time.
template <typename T>
void interleave_planes(const T* from, int64_t step, int64_t rows, T* to) {
  typedef T V __attribute__((vector_size(16)));
  constexpr int kLanes = 16 / sizeof(T);
  constexpr std::make_integer_sequence<int, kLanes> kAll;
  int64_t i = 0;
  for (; i + kLanes <= rows; i += kLanes) {
    V a, b, c;
    std::memcpy(&a, from + i, sizeof a);
    std::memcpy(&b, from + step + i, sizeof b);
    std::memcpy(&c, from + 2 * step + i, sizeof c);
    const auto store = [&](V v, int part) { std::memcpy(to + 3 * i + part * kLanes, &v, sizeof v); };
    store(interleaved<0>(a, b, c, kAll), 0);
    store(interleaved<1>(a, b, c, kAll), 1);
    store(interleaved<2>(a, b, c, kAll), 2);
  }
  transpose_strip(from + i, step, rows - i, 3, to + 3 * i, 3);
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
  const int64_t strip = n > 4 ? kStrip : 16 * kStrip, strips = (rows + strip - 1) / strip,
                parts = y.elements() / (n * rows) * strips;
  with_element(size_of(y.dtype), [&](auto element) {
    using T = decltype(element);
    parallel_for(call.context.pool, parts, (1 << 14) / (n * strip), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Place place(outer, i / strips);
        const int64_t first = i % strips * strip, count = std::min(strip, rows - first);
        const T* start = x.as<T>() + place.from + first;
        T* end = y.as<T>() + place.to + first * to_step;
        n == 3 && to_step == 3 ? interleave_planes(start, step, count, end)
                               : transpose_strip(start, step, count, n, end, to_step);
      }
    });
  });
  return true;
}

}  // namespace lite
