#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel.h"
#include "kernels/vector/math.h"
#include "kernels/vector/share.h"

// Normalisation, for any instruction set. Features, the last axis, lie side by side.

namespace lite {

constexpr float kNoLimit = std::numeric_limits<float>::infinity();

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

// Rows of `n` features in parts that depend on sizes alone: a thread takes a part, whose sums have a place of their
// own.
struct RowParts {
  int64_t rows, n, parts;

  RowParts(int64_t rows_, int64_t n_) : rows(rows_), n(n_), parts(std::clamp<int64_t>(rows * n / (1 << 15), 1, 16)) {}
  explicit RowParts(const Tensor& x) : RowParts(x.dim(-1) > 0 ? x.elements() / x.dim(-1) : 0, x.dim(-1)) {}

  int64_t begin(int64_t part) const { return rows * part / parts; }

  // body(part, begin, end) for all parts of the rows.
  template <typename Body>
  void for_each(ThreadPool* pool, int64_t operations, const Body& body) const {
    parallel_for(pool, parts, share(parts, rows * n / parts * operations), [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) body(part, begin(part), begin(part + 1));
    });
  }
};

// body(first, last, i, lanes) for rows [first, last) of some of the rows and features [i, i + lanes) of all of them. So
// many rows at a time that those of `tensors` tensors stay in the first cache.
template <class Isa, typename Body>
inline void by_features(int64_t begin, int64_t end, int64_t n, int tensors, const Body& body) {
  const int64_t step = std::clamp<int64_t>(6144 / (n * tensors), 1, 256);
  for (int64_t first = begin; first < end; first += step) {
    const int64_t last = std::min(first + step, end);
    over<Isa>(n, [&](int64_t i, int lanes) { body(first, last, i, lanes); });
  }
}

// The sum of f(row) over rows [first, last).
template <class Isa, typename F>
inline typename Isa::V sum_rows(int64_t first, int64_t last, F f) {
  typename Isa::V a = Isa::all(0.0f), b = a, c = a, d = a;
  int64_t row = first;
  for (; row + 4 <= last; row += 4) {
    a = a + f(row);
    b = b + f(row + 1);
    c = c + f(row + 2);
    d = d + f(row + 3);
  }
  for (; row < last; ++row) a = a + f(row);
  return (a + b) + (c + d);
}

// Mean and squares (the sum of squared distances from it) of `count` rows, joined by those of `more` others: Chan,
// Golub and LeVeque 1983.
template <class Isa>
inline void join_moments(int64_t count, typename Isa::V more_mean, typename Isa::V more_squares, int64_t more,
                         float* mean, float* squares, int lanes) {
  const float share_of_more = static_cast<float>(more) / static_cast<float>(count + more);
  const auto old = Isa::load(mean, lanes), apart = more_mean - old;
  Isa::store(mean, old + apart * share_of_more, lanes);
  const auto between = apart * apart * (share_of_more * static_cast<float>(count));
  Isa::store(squares, Isa::load(squares, lanes) + more_squares + between, lanes);
}

// y limited to [low, high]. Scratch: one number a feature, then two for every part.
template <class Isa, typename Attrs>
Status vector_batch_norm_train(const Call<Attrs>& call, float low, float high) {
  using V = typename Isa::V;
  const RowParts parts(call.y());
  const int64_t n = parts.n;
  const float *x = call.in[0].f32(), *bias = call.in[2].f32();
  float *slope = static_cast<float*>(call.context.scratch), *moments = slope + n, *y = call.y().f32();
  float *mean = call.out[1].f32(), *variance = call.out[2].f32();
  std::fill_n(moments, 2 * n * parts.parts, 0.0f);
  parts.for_each(call.context.pool, 4, [&](int64_t part, int64_t begin, int64_t end) {
    float *part_mean = moments + 2 * n * part, *part_squares = part_mean + n;
    by_features<Isa>(begin, end, n, 1, [&](int64_t first, int64_t last, int64_t i, int lanes) {
      const auto at = [&](int64_t row) { return Isa::load(x + row * n + i, lanes); };
      const V centre = sum_rows<Isa>(first, last, at) / Isa::all(static_cast<float>(last - first));
      const V squares = sum_rows<Isa>(first, last, [&](int64_t row) {
        const V centred = at(row) - centre;
        return centred * centred;
      });
      join_moments<Isa>(first - begin, centre, squares, last - first, part_mean + i, part_squares + i, lanes);
    });
  });
  over<Isa>(n, [&](int64_t i, int lanes) {
    for (int64_t part = 1; part < parts.parts; ++part) {
      const float* more = moments + 2 * n * part + i;
      join_moments<Isa>(parts.begin(part), Isa::load(more, lanes), Isa::load(more + n, lanes),
                        parts.begin(part + 1) - parts.begin(part), moments + i, moments + n + i, lanes);
    }
    Isa::store(mean + i, Isa::load(moments + i, lanes), lanes);
    Isa::store(variance + i, Isa::load(moments + n + i, lanes) / Isa::all(static_cast<float>(parts.rows)), lanes);
  });
  slope_of<Isa>(call.in[1].f32(), variance, call.attrs.epsilon, n, slope);
  parts.for_each(call.context.pool, 2, [&](int64_t, int64_t begin, int64_t end) {
    by_features<Isa>(begin, end, n, 2, [&](int64_t first, int64_t last, int64_t i, int lanes) {
      const V centre = Isa::load(mean + i, lanes), a = Isa::load(slope + i, lanes), b = Isa::load(bias + i, lanes);
      for (int64_t row = first; row < last; ++row) {
        const V normalised = Isa::fma(Isa::load(x + row * n + i, lanes) - centre, a, b);
        Isa::store(y + row * n + i, vlimit<Isa>(normalised, low, high), lanes);
      }
    });
  });
  return Status::kOk;
}
template <typename Attrs>
uint64_t batch_norm_train_scratch(const Call<Attrs>& call) {
  const RowParts parts(call.y());
  return static_cast<uint64_t>((1 + 2 * parts.parts) * parts.n) * sizeof(float);
}

// Where the forward pass limited y to [0, high], the gradient passes inside alone; input 5 is the bias then.
// Scratch: 3 numbers a feature, then two for every part; dx = slope g - level - (x - mean) tilt.
template <class Isa, bool kLimited, typename Attrs>
Status vector_batch_norm_train_dx(const Call<Attrs>& call, float high) {
  using V = typename Isa::V;
  const RowParts parts(call.y());
  const int64_t n = parts.n;
  const float *g = call.in[0].f32(), *x = call.in[1].f32(), *mean = call.in[3].f32();
  float *slope = static_cast<float*>(call.context.scratch), *level = slope + n, *tilt = level + n, *sums = tilt + n;
  float* y = call.y().f32();
  const float* bias = kLimited ? call.in[5].f32() : mean;  // one that is there: without limits nobody looks at it
  slope_of<Isa>(call.in[2].f32(), call.in[4].f32(), call.attrs.epsilon, n, slope);
  const auto passed = [high](V grad, V centred, V a, V b) {
    if constexpr (kLimited) {
      const V forward = Isa::fma(centred, a, b);
      return Isa::both(Isa::both(Isa::below(Isa::all(0.0f), forward), Isa::below(forward, Isa::all(high))), grad);
    } else {
      return grad;
    }
  };
  std::fill_n(sums, 2 * n * parts.parts, 0.0f);
  parts.for_each(call.context.pool, 4, [&](int64_t part, int64_t begin, int64_t end) {
    float *sum = sums + 2 * n * part, *along = sum + n;
    by_features<Isa>(begin, end, n, 2, [&](int64_t first, int64_t last, int64_t i, int lanes) {
      const V centre = Isa::load(mean + i, lanes), a = Isa::load(slope + i, lanes), b = Isa::load(bias + i, lanes);
      const auto centred = [&](int64_t row) { return Isa::load(x + row * n + i, lanes) - centre; };
      const auto at = [&](int64_t row) { return passed(Isa::load(g + row * n + i, lanes), centred(row), a, b); };
      Isa::store(sum + i, Isa::load(sum + i, lanes) + sum_rows<Isa>(first, last, at), lanes);
      const V turned = sum_rows<Isa>(first, last, [&](int64_t row) { return at(row) * centred(row); });
      Isa::store(along + i, Isa::load(along + i, lanes) + turned, lanes);
    });
  });
  over<Isa>(n, [&](int64_t i, int lanes) {
    V sum = Isa::load(sums + i, lanes), along = Isa::load(sums + n + i, lanes);
    for (int64_t part = 1; part < parts.parts; ++part) {
      sum = sum + Isa::load(sums + 2 * n * part + i, lanes);
      along = along + Isa::load(sums + 2 * n * part + n + i, lanes);
    }
    const V count = Isa::all(static_cast<float>(parts.rows));
    const V r = Isa::all(1.0f) / Isa::sqrt(Isa::load(call.in[4].f32() + i, lanes) + Isa::all(call.attrs.epsilon));
    const V a = Isa::load(slope + i, lanes);
    along = along * r;
    Isa::store(call.out[1].f32() + i, along, lanes);
    Isa::store(call.out[2].f32() + i, sum, lanes);
    Isa::store(level + i, a * sum / count, lanes);
    Isa::store(tilt + i, a * r * along / count, lanes);
  });
  parts.for_each(call.context.pool, 5, [&](int64_t, int64_t begin, int64_t end) {
    by_features<Isa>(begin, end, n, 3, [&](int64_t first, int64_t last, int64_t i, int lanes) {
      const V centre = Isa::load(mean + i, lanes), a = Isa::load(slope + i, lanes), b = Isa::load(bias + i, lanes);
      const V c = Isa::load(level + i, lanes), d = Isa::load(tilt + i, lanes);
      for (int64_t row = first; row < last; ++row) {
        const V centred = Isa::load(x + row * n + i, lanes) - centre;
        const V straight = passed(Isa::load(g + row * n + i, lanes), centred, a, b) * a - c;
        Isa::store(y + row * n + i, straight - centred * d, lanes);
      }
    });
  });
  return Status::kOk;
}
template <typename Attrs>
uint64_t batch_norm_train_dx_scratch(const Call<Attrs>& call) {
  const RowParts parts(call.y());
  return static_cast<uint64_t>((3 + 2 * parts.parts) * parts.n) * sizeof(float);
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
