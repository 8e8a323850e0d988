#pragma once

#include <cstdint>

#include "gen/op_table.h"

// Loops over vectors and the functions of the elementwise operators, for any instruction set. `Isa::V` is a vector
// type with the compiler's own operators: + - * / between vectors, and with a number. Polynomials are least-maximum
// fits of our own.

namespace lite {

// body(i, lanes) over [0, n), all lanes but in the last call.
template <class Isa, typename Body>
inline void over(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + Isa::kLanes <= n; i += Isa::kLanes) body(i, Isa::kLanes);
  if (i < n) body(i, static_cast<int>(n - i));
}

// The same four vectors at a time, for bodies that are short.
template <class Isa, typename Body>
inline void over_many(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + 4 * Isa::kLanes <= n; i += 4 * Isa::kLanes) {
    body(i, Isa::kLanes);
    body(i + Isa::kLanes, Isa::kLanes);
    body(i + 2 * Isa::kLanes, Isa::kLanes);
    body(i + 3 * Isa::kLanes, Isa::kLanes);
  }
  over<Isa>(n - i, [=](int64_t k, int lanes) { body(i + k, lanes); });
}

// c[0] + c[1] x + c[2] x^2 ...
template <class Isa, int N>
inline typename Isa::V polynomial(typename Isa::V x, const float (&c)[N]) {
  typename Isa::V y = Isa::all(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) y = Isa::fma(y, x, Isa::all(c[i]));
  return y;
}

// e^x = 2^n (1 + p) with |r| <= ln(2) / 2, p = e^r - 1. Finds p and returns 2^(n - 1): 2^128 is no float. What is
// below -86.6 becomes -86.6, so that no part is below the normal numbers: those take many times longer.
template <class Isa>
inline typename Isa::V vexp_parts(typename Isa::V x, typename Isa::V* p) {
  using V = typename Isa::V;
  x = Isa::min(Isa::all(89.0f), Isa::max(Isa::all(-86.6f), x));  // in this order NaN stays
  const V n = Isa::round(x * 1.44269504f);
  V r = Isa::fma(n, Isa::all(-0.693359375f), x);  // ln(2) in two parts, so that n ln(2) is exact
  r = Isa::fma(n, Isa::all(2.12194440e-4f), r);
  const V q = polynomial<Isa>(r, {0.49999994f, 0.166665211f, 0.041668389f, 0.00836871658f, 0.00138145988f});
  *p = Isa::fma(r * r, q, r);
  return Isa::power_of_two(n - 1.0f);
}

// e^x; 0 below -86.6
template <class Isa>
inline typename Isa::V vexp(typename Isa::V x) {
  typename Isa::V p;
  const typename Isa::V half_scale = vexp_parts<Isa>(x, &p);
  return Isa::both(Isa::not_below(x, Isa::all(-86.6f)), Isa::fma(p, half_scale, half_scale) * 2.0f);
}

// e^x - 1, precise near 0
template <class Isa>
inline typename Isa::V vexpm1(typename Isa::V x) {
  typename Isa::V p;
  const typename Isa::V half_scale = vexp_parts<Isa>(x, &p);
  return Isa::fma(p, half_scale, half_scale - 0.5f) * 2.0f;
}

// ln x = n ln(2) + ln(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); minus infinity at 0, not a number below
template <class Isa>
inline typename Isa::V vlog(typename Isa::V x) {
  using V = typename Isa::V;
  const auto tiny = Isa::below(x, Isa::all(1.17549435e-38f));
  V n;
  V f = Isa::split(Isa::select(tiny, x * 8388608.0f, x), &n);
  const auto small = Isa::below(f, Isa::all(0.707106781f));
  f = Isa::select(small, f + f, f) - 1.0f;
  n = n - Isa::both(small, Isa::all(1.0f)) - Isa::both(tiny, Isa::all(23.0f));
  const V q = polynomial<Isa>(f, {0.333333313f, -0.250008196f, 0.200012267f, -0.166233569f, 0.142017573f, -0.131601825f,
                                  0.127615765f, -0.0763449669f});
  V y = Isa::fma(f * f * f, q, n * -2.12194440e-4f);
  y = Isa::fma(n, Isa::all(0.693359375f), Isa::fma(f * f, Isa::all(-0.5f), y) + f);
  constexpr float kInfinity = __builtin_huge_valf();
  y = Isa::select(Isa::equal(x, Isa::all(0.0f)), Isa::all(-kInfinity), y);
  const auto ordinary = Isa::without(Isa::not_below(x, Isa::all(0.0f)), Isa::not_below(x, Isa::all(kInfinity)));
  // 0 <= x < infinity has its logarithm; infinity and NaN stay, and a negative number becomes NaN
  return Isa::select(ordinary, y, Isa::select(Isa::below(x, Isa::all(0.0f)), Isa::all(__builtin_nanf("")), x));
}

// ln(1 + x) for x >= 0, precise near 0: the error of 1 + x cancels in the quotient
template <class Isa>
inline typename Isa::V vlog1p(typename Isa::V x) {
  using V = typename Isa::V;
  const V sum = x + 1.0f;
  return Isa::select(Isa::equal(sum, Isa::all(1.0f)), x, vlog<Isa>(sum) * (x / (sum - 1.0f)));
}

template <class Isa>
inline typename Isa::V vsigmoid(typename Isa::V x) {
  return Isa::all(1.0f) / (vexp<Isa>(Isa::all(0.0f) - x) + 1.0f);
}

template <class Isa>
inline typename Isa::V vtanh(typename Isa::V x) {
  using V = typename Isa::V;
  const V a = Isa::abs(x), square = x * x;
  const V q = polynomial<Isa>(square, {-0.333332837f, 0.133314908f, -0.0537434965f, 0.020650588f, -0.00571704516f});
  const V large = Isa::all(1.0f) - Isa::all(2.0f) / (vexp<Isa>(a + a) + 1.0f);
  return Isa::select(Isa::below(a, Isa::all(0.625f)), Isa::fma(square * x, q, x), Isa::with_sign_of(large, x));
}

template <class Isa>
inline typename Isa::V vlimit(typename Isa::V x, float low, float high) {
  return Isa::min(Isa::all(high), Isa::max(Isa::all(low), x));  // in this order NaN stays
}

// An odd rational function up to 3.92, from where on it is 1 in float32
template <class Isa>
inline typename Isa::V verf(typename Isa::V x) {
  using V = typename Isa::V;
  const V a = vlimit<Isa>(x, -3.92f, 3.92f), square = a * a;
  const V p = polynomial<Isa>(
      square, {1.12837915f, 0.190402173f, 0.0527481876f, 0.00376544454f, 0.00028488077f, 2.05014279e-06f});
  const V q =
      polynomial<Isa>(square, {1.0f, 0.502072274f, 0.114107367f, 0.0149688661f, 0.00116249755f, 3.8092195e-05f});
  return vlimit<Isa>(a * p / q, -1.0f, 1.0f);
}

template <class Isa>
inline typename Isa::V vgelu(typename Isa::V x) {
  return x * 0.5f * (verf<Isa>(x * 0.70710678f) + 1.0f);
}

template <class Isa>
inline typename Isa::V vgelu_by_tanh(typename Isa::V x) {
  // (1 + tanh(u)) / 2 is the sigmoid of 2u
  return x * vsigmoid<Isa>(x * (x * x * 0.044715f + 1.0f) * 1.59576912f);
}

template <class Isa>
inline typename Isa::V vhard_swish(typename Isa::V x) {
  return x * vlimit<Isa>(x * (1.0f / 6) + 0.5f, 0.0f, 1.0f);
}

template <class Isa>
inline typename Isa::V vactivate(Activation kind, typename Isa::V x) {
  switch (kind) {
    case Activation::none:
      return x;
    case Activation::relu:
      return Isa::max(Isa::all(0.0f), x);
    case Activation::relu6:
      return vlimit<Isa>(x, 0.0f, 6.0f);
    case Activation::hard_swish:
      return vhard_swish<Isa>(x);
    case Activation::sigmoid:
      return vsigmoid<Isa>(x);
    case Activation::tanh:
      return vtanh<Isa>(x);
    case Activation::silu:
      return x * vsigmoid<Isa>(x);
    case Activation::gelu:
      return vgelu<Isa>(x);
  }
  return x;
}

// y = activation(y) for n elements of each row. It stays apart: it holds the code of all activations.
template <class Isa>
__attribute__((noinline)) void activate_rows(Activation kind, int rows, int64_t n, float* const* y) {
  for (int r = 0; r < rows; ++r) {
    float* row = y[r];
    over<Isa>(
        n, [=](int64_t i, int lanes) { Isa::store(row + i, vactivate<Isa>(kind, Isa::load(row + i, lanes)), lanes); });
  }
}
template <class Isa>
inline void activate_row(Activation kind, int64_t n, float* y) {
  activate_rows<Isa>(kind, 1, n, &y);
}

}  // namespace lite
