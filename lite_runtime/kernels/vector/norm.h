#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel.h"
#include "kernels/vector/math.h"
#include "kernels/vector/share.h"

// Normalisation, for any instruction set. Features, the last axis, lie side by side.

namespace lite {

// body(row) for rows of `width` elements.
template <typename Body>
void for_rows(ThreadPool* pool, int64_t rows, int64_t width, int64_t operations, Body body) {
  parallel_for(pool, rows, share(rows, width * operations), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

// y = (x - mean) slope + bias for one row.
template <class Isa>
inline void normalise(const float* x, const float* mean, const float* slope, const float* bias, int64_t n, float* y) {
  over<Isa>(n, [&](int64_t i, int lanes) {
    const auto centred = Isa::load(x + i, lanes) - Isa::load(mean + i, lanes);
    Isa::store(y + i, Isa::fma(centred, Isa::load(slope + i, lanes), Isa::load(bias + i, lanes)), lanes);
  });
}

// slope = scale / sqrt(variance + epsilon)
template <class Isa>
inline void slope_of(const float* scale, const float* variance, float epsilon, int64_t n, float* slope) {
  over<Isa>(n, [&](int64_t i, int lanes) {
    const auto deviation = Isa::sqrt(Isa::load(variance + i, lanes) + Isa::all(epsilon));
    Isa::store(slope + i, Isa::load(scale + i, lanes) / deviation, lanes);
  });
}

// Scratch: one number a feature.
template <class Isa>
Status vector_batch_norm(const Call<batch_norm_attrs>& call) {
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  float* slope = static_cast<float*>(call.context.scratch);
  slope_of<Isa>(call.in[1].f32(), call.in[4].f32(), call.attrs.epsilon, n, slope);
  for_rows(call.context.pool, rows, n, 2, [&](int64_t row) {
    normalise<Isa>(call.in[0].f32() + row * n, call.in[3].f32(), slope, call.in[2].f32(), n, call.y().f32() + row * n);
  });
  return Status::kOk;
}

// The sum of f(row) over all rows. Sums of 64 rows are summed, against rounding errors.
template <class Isa, typename F>
inline typename Isa::V sum_rows(int64_t rows, F f) {
  using V = typename Isa::V;
  V total = Isa::all(0.0f);
  for (int64_t begin = 0; begin < rows; begin += 64) {
    const int64_t end = std::min(begin + 64, rows);
    V a = Isa::all(0.0f), b = Isa::all(0.0f);
    int64_t row = begin;
    for (; row + 2 <= end; row += 2) {
      a = a + f(row);
      b = b + f(row + 1);
    }
    if (row < end) a = a + f(row);
    total = total + (a + b);
  }
  return total;
}

// Scratch: one number a feature.
template <class Isa>
Status vector_batch_norm_train(const Call<batch_norm_train_attrs>& call) {
  using V = typename Isa::V;
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  const float* x = call.in[0].f32();
  float *slope = static_cast<float*>(call.context.scratch), *mean = call.out[1].f32(), *variance = call.out[2].f32();
  const int64_t vectors = (n + Isa::kLanes - 1) / Isa::kLanes;
  for_rows(call.context.pool, vectors, rows, 4 * Isa::kLanes, [&](int64_t vector) {
    const int64_t i = vector * Isa::kLanes;
    const int lanes = static_cast<int>(std::min<int64_t>(Isa::kLanes, n - i));
    const V count = Isa::all(static_cast<float>(rows));
    const V centre = sum_rows<Isa>(rows, [&](int64_t row) { return Isa::load(x + row * n + i, lanes); }) / count;
    const V squares = sum_rows<Isa>(rows, [&](int64_t row) {
      const V centred = Isa::load(x + row * n + i, lanes) - centre;
      return centred * centred;
    });
    Isa::store(mean + i, centre, lanes);
    Isa::store(variance + i, squares / count, lanes);
  });
  slope_of<Isa>(call.in[1].f32(), variance, call.attrs.epsilon, n, slope);
  for_rows(call.context.pool, rows, n, 2, [&](int64_t row) {
    normalise<Isa>(x + row * n, mean, slope, call.in[2].f32(), n, call.y().f32() + row * n);
  });
  return Status::kOk;
}

// Scratch: 3 numbers a feature; dx = slope g - level - (x - mean) tilt.
template <class Isa>
Status vector_batch_norm_train_dx(const Call<batch_norm_train_dx_attrs>& call) {
  using V = typename Isa::V;
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  const float *g = call.in[0].f32(), *x = call.in[1].f32(), *mean = call.in[3].f32();
  float *slope = static_cast<float*>(call.context.scratch), *level = slope + n, *tilt = level + n;
  const int64_t vectors = (n + Isa::kLanes - 1) / Isa::kLanes;
  for_rows(call.context.pool, vectors, rows, 6 * Isa::kLanes, [&](int64_t vector) {
    const int64_t i = vector * Isa::kLanes;
    const int lanes = static_cast<int>(std::min<int64_t>(Isa::kLanes, n - i));
    const V centre = Isa::load(mean + i, lanes), count = Isa::all(static_cast<float>(rows)), one = Isa::all(1.0f);
    const V r = one / Isa::sqrt(Isa::load(call.in[4].f32() + i, lanes) + Isa::all(call.attrs.epsilon));
    const V sum = sum_rows<Isa>(rows, [&](int64_t row) { return Isa::load(g + row * n + i, lanes); });
    const V along = r * sum_rows<Isa>(rows, [&](int64_t row) {
                      return Isa::load(g + row * n + i, lanes) * (Isa::load(x + row * n + i, lanes) - centre);
                    });
    const V a = Isa::load(call.in[2].f32() + i, lanes) * r;
    Isa::store(call.out[1].f32() + i, along, lanes);
    Isa::store(call.out[2].f32() + i, sum, lanes);
    Isa::store(slope + i, a, lanes);
    Isa::store(level + i, a * sum / count, lanes);
    Isa::store(tilt + i, a * r * along / count, lanes);
  });
  for_rows(call.context.pool, rows, n, 5, [&](int64_t row) {
    over<Isa>(n, [&](int64_t i, int lanes) {
      const V centred = Isa::load(x + row * n + i, lanes) - Isa::load(mean + i, lanes);
      const V straight = Isa::load(g + row * n + i, lanes) * Isa::load(slope + i, lanes) - Isa::load(level + i, lanes);
      Isa::store(call.y().f32() + row * n + i, straight - centred * Isa::load(tilt + i, lanes), lanes);
    });
  });
  return Status::kOk;
}

// The sum of f(x) over a row; lanes behind its end do not count.
template <class Isa, typename F>
inline float row_sum(const float* x, int64_t n, F f) {
  typename Isa::V sum = Isa::all(0.0f);
  over<Isa>(n,
            [&](int64_t i, int lanes) { sum = sum + Isa::first(f(Isa::load(x + i, lanes)), lanes, Isa::all(0.0f)); });
  return Isa::sum(sum);
}

template <class Isa>
Status vector_layer_norm(const Call<layer_norm_attrs>& call) {
  using V = typename Isa::V;
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  const float *scale = call.in[1].f32(), *bias = call.in[2].f32();
  for_rows(call.context.pool, rows, n, 8, [&](int64_t row) {
    const float* x = call.in[0].f32() + row * n;
    float* y = call.y().f32() + row * n;
    const V mean = Isa::all(row_sum<Isa>(x, n, [](V v) { return v; }) / static_cast<float>(n));
    const float squares = row_sum<Isa>(x, n, [&](V v) { return (v - mean) * (v - mean); });
    const V r = Isa::all(1.0f / std::sqrt(squares / static_cast<float>(n) + call.attrs.epsilon));
    over<Isa>(n, [&](int64_t i, int lanes) {
      const V normalised = (Isa::load(x + i, lanes) - mean) * r;
      Isa::store(y + i, Isa::fma(normalised, Isa::load(scale + i, lanes), Isa::load(bias + i, lanes)), lanes);
    });
  });
  return Status::kOk;
}

template <class Isa>
inline float row_max(const float* x, int64_t n) {
  using V = typename Isa::V;
  const V lowest = Isa::all(-std::numeric_limits<float>::infinity());
  V best = lowest;
  over<Isa>(n,
            [&](int64_t i, int lanes) { best = Isa::max(best, Isa::first(Isa::load(x + i, lanes), lanes, lowest)); });
  return Isa::largest(best);
}

// y = e^(x - the largest x), and the sum of that.
template <class Isa>
inline float row_exp(const float* x, int64_t n, float* y) {
  using V = typename Isa::V;
  const V max = Isa::all(row_max<Isa>(x, n));
  V sum = Isa::all(0.0f);
  over<Isa>(n, [&](int64_t i, int lanes) {
    const V e = vexp<Isa>(Isa::load(x + i, lanes) - max);
    Isa::store(y + i, e, lanes);
    sum = sum + Isa::first(e, lanes, Isa::all(0.0f));
  });
  return Isa::sum(sum);
}

// The largest x, plus log of the sum of e^(x - the largest x).
template <class Isa>
inline float row_log_sum_exp(const float* x, int64_t n) {
  using V = typename Isa::V;
  const float max = row_max<Isa>(x, n);
  const V all = Isa::all(max);
  return max + std::log(row_sum<Isa>(x, n, [&](V v) { return vexp<Isa>(v - all); }));
}

// Over the last axis.
template <class Isa>
Status vector_softmax(const Call<softmax_attrs>& call) {
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  for_rows(call.context.pool, rows, n, 32, [&](int64_t row) {
    float* y = call.y().f32() + row * n;
    const auto factor = Isa::all(1.0f / row_exp<Isa>(call.in[0].f32() + row * n, n, y));
    over<Isa>(n, [&](int64_t i, int lanes) { Isa::store(y + i, Isa::load(y + i, lanes) * factor, lanes); });
  });
  return Status::kOk;
}

// Over the last axis.
template <class Isa>
Status vector_log_softmax(const Call<log_softmax_attrs>& call) {
  const int64_t n = call.y().dim(-1), rows = n > 0 ? call.y().elements() / n : 0;
  for_rows(call.context.pool, rows, n, 32, [&](int64_t row) {
    const float* x = call.in[0].f32() + row * n;
    float* y = call.y().f32() + row * n;
    const auto shift = Isa::all(row_log_sum_exp<Isa>(x, n));
    over<Isa>(n, [&](int64_t i, int lanes) { Isa::store(y + i, Isa::load(x + i, lanes) - shift, lanes); });
  });
  return Status::kOk;
}

}  // namespace lite
