#pragma once

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/math.h"

// Elementwise loops for any instruction set; their formulas are in elementwise.inc.

namespace lite {

// Not inlined where it is called, and that is in several places: half the code.
#define KEEP_APART __attribute__((noinline))

constexpr int64_t kGrain = 1 << 14;  // elements that are worth a thread's while

// y[i] = f(x[i]) by vectors
template <class Isa, typename Attrs, typename F>
Status vunary(const Call<Attrs>& call, F f) {
  const float* x = call.in[0].f32();
  float* y = call.y().f32();
  parallel_for(call.context.pool, call.y().elements(), kGrain, [=](int64_t begin, int64_t end) KEEP_APART {
    over<Isa>(end - begin,
              [=](int64_t i, int lanes) { Isa::store(y + begin + i, f(Isa::load(x + begin + i, lanes)), lanes); });
  });
  return Status::kOk;
}

// Elements of an input, or one element over and over.
template <class Isa>
struct Source {
  const float* data;
  bool one;
  typename Isa::V all;

  Source(const float* p, bool is_one) : data(p), one(is_one), all(Isa::all(*p)) {}
  typename Isa::V load(int64_t i, int lanes) const { return one ? all : Isa::load(data + i, lanes); }
};

// How the elements of a and b lie along those of y, which are dense.
inline Walk pairs(const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto stride = [&](const Tensor& x, int axis) -> int64_t {
    const int own = axis - (y.rank() - x.rank());
    return own < 0 || x.shape[own] == 1 ? 0 : product(x.shape, own + 1, x.rank());
  };
  Walk walk;
  for (int i = 0; i < y.rank(); ++i) walk.add(y.shape[i], stride(a, i), stride(b, i));
  return walk;
}

// store(y + i, f(a, b), lanes) for every element of y, with a and b stretched by the numpy rule: rows in which each
// is either dense or one element
template <class Isa, typename T, typename Attrs, typename F, typename Store>
Status vbinary(const Call<Attrs>& call, F f, Store store) {
  const float *a = call.in[0].f32(), *b = call.in[1].f32();
  T* y = call.y().template as<T>();
  const int64_t total = call.y().elements();
  if (total == 0) return Status::kOk;

  Walk rows = pairs(call.in[0], call.in[1], call.y());
  const int last = rows.rank - 1;
  const int64_t n = last < 0 ? 1 : rows.size[last];
  const bool one_a = last < 0 || rows.from[last] == 0, one_b = last < 0 || rows.to[last] == 0;
  if (last >= 0) rows.rank = last;
  const auto row = [=](int64_t at_a, int64_t at_b, T* to, int64_t length) KEEP_APART {
    const Source<Isa> from_a(a + at_a, one_a), from_b(b + at_b, one_b);
    over<Isa>(length,
              [=](int64_t i, int lanes) { store(to + i, f(from_a.load(i, lanes), from_b.load(i, lanes)), lanes); });
  };
  if (n == total) {
    parallel_for(call.context.pool, n, kGrain, [=](int64_t begin, int64_t end) {
      row(one_a ? 0 : begin, one_b ? 0 : begin, y + begin, end - begin);
    });
    return Status::kOk;
  }
  parallel_for(call.context.pool, total / n, kGrain / n, [=](int64_t begin, int64_t end) {
    Place place(rows, begin);
    for (int64_t i = begin; i < end; ++i, place.advance(rows)) row(place.from, place.to, y + i * n, n);
  });
  return Status::kOk;
}

// Elements of four bytes, where the condition has the shape of y, and a and b have it or one element; false when it
// is another case.
template <class Isa>
bool vwhere(const Call<where_attrs>& call) {
  const Tensor &cond = call.in[0], &a = call.in[1], &b = call.in[2], &y = call.y();
  const bool one_a = a.elements() == 1, one_b = b.elements() == 1;
  if (size_of(y.dtype) != sizeof(float) || y.elements() == 0 || cond.shape != y.shape) return false;
  if ((!one_a && a.shape != y.shape) || (!one_b && b.shape != y.shape)) return false;
  const Source<Isa> from_a(a.f32(), one_a), from_b(b.f32(), one_b);
  const uint8_t* truths = cond.as<uint8_t>();
  float* to = y.f32();
  parallel_for(call.context.pool, y.elements(), kGrain, [=](int64_t begin, int64_t end) KEEP_APART {
    over<Isa>(end - begin, [=](int64_t k, int lanes) {
      const int64_t i = begin + k;
      const auto chosen = Isa::load_truths(truths + i, lanes);
      Isa::store(to + i, Isa::select(chosen, from_a.load(i, lanes), from_b.load(i, lanes)), lanes);
    });
  });
  return true;
}

}  // namespace lite
