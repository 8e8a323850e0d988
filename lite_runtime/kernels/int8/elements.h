#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/int8/rescale.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/share.h"
#include "kernels/windows.h"

// Operators on a tensor of T, int8 or int16, element by element, and means, for any instruction set.
//
// An instruction set is a class I with 32-bit lanes I::V and what int8/rescale.h names for sums and bounds, and
//   load_bytes(from), store_bytes(to, v)   kLanes numbers of int8
//   load_shorts(from), store_shorts(to, v) kLanes numbers of int16
//   Exact                                  scale_by_multiplier for any 32-bit numbers: made of multiplier and shift
//   kQuick                                 whether QuickScale<I> does where it may
//   F, to_float(v), truncate(f)            float vectors with as many lanes, and conversions
//   within(f, low, high)                   f within these bounds; NaN is the lower one
//   kFuses                                 whether F::fma rounds once
//   Table, kBytes                          Table(256 numbers)(x, y) looks kBytes numbers up

namespace lite {

constexpr int64_t kElementCost = 64;  // operations that one number costs, as share() counts them

// together(x, y): kWide results, from X to Y.
template <int kWide, typename X, typename Y, typename Attrs, typename Together>
Status unary_rows(const Call<Attrs>& call, const Together& together) {
  const X* x = call.in[0].template as<X>();
  Y* y = call.y().template as<Y>();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    const Together compute = together;  // a copy that bytes written to y cannot be in: it stays in registers
    int64_t i = begin;
    for (; i + kWide <= end; i += kWide) compute(x + i, y + i);
    if (i == end) return;
    X last_x[kWide] = {};
    Y last_y[kWide];
    std::copy(x + i, x + end, last_x);
    compute(last_x, last_y);
    std::copy_n(last_y, end - i, y + i);
  });
  return Status::kOk;
}

// scale_by_multiplier the short way.
template <class I>
struct QuickRescale {
  QuickScale<I> scale;

  QuickRescale(int multiplier, int shift) : scale(Quick::of(multiplier, shift, 0)) {}
  typename I::V operator()(typename I::V x) const { return scale(I::add(x, I::all(INT32_MIN))); }
};

template <class I>
typename I::V load_numbers(const int8_t* from) {
  return I::load_bytes(from);
}
template <class I>
typename I::V load_numbers(const int16_t* from) {
  return I::load_shorts(from);
}
template <class I>
void store_numbers(int8_t* to, typename I::V v) {
  I::store_bytes(to, v);
}
template <class I>
void store_numbers(int16_t* to, typename I::V v) {
  I::store_shorts(to, v);
}

// How far a number of T can be from a zero point; int16 has none.
template <typename T>
constexpr int64_t kFarthest = sizeof(T) == 1 ? 255 : 1 << 15;

// What StoredAs does. Bounded before the zero point is added, so that the sum cannot overflow.
template <class I>
struct Bounded {
  typename I::V zero, low, high;

  template <typename T>
  explicit Bounded(const StoredAs<T>& stored)
      : zero(I::all(stored.zero)), low(I::all(stored.low - stored.zero)), high(I::all(stored.high - stored.zero)) {}
  typename I::V operator()(typename I::V x) const { return I::add(I::min(I::max(x, low), high), zero); }
};

template <typename T>
struct Type {
  using Is = T;
};

// body(Type<a class that rescales>): the short one where that may be.
template <class I, typename Body>
Status with_scale([[maybe_unused]] bool quick, const Body& body) {
  if constexpr (I::kQuick) {
    if (quick) return body(Type<QuickRescale<I>>());
  }
  return body(Type<typename I::Exact>());
}

// x / divisor as a division rounds it: a product with the rounded reciprocal, corrected twice by what is left over
// (Markstein 1990).
template <class F>
class Quotient {
 public:
  // Whether nothing on the way to a number within +-1000 leaves the normal ones.
  static bool takes(float divisor) { return divisor > 1e-30f && divisor < 1e30f; }

  explicit Quotient(float divisor) : minus_divisor_(F::all(-divisor)), reciprocal_(F::all(1 / divisor)) {}
  typename F::V operator()(typename F::V x) const {
    const auto near = x * reciprocal_, nearer = F::fma(F::fma(near, minus_divisor_, x), reciprocal_, near);
    return F::fma(F::fma(nearer, minus_divisor_, x), reciprocal_, nearer);
  }

 private:
  typename F::V minus_divisor_, reciprocal_;
};

template <class I>
Status int8_quantize(const Call<quantize_attrs>& call) {
  using F = typename I::F;
  const float scale = call.attrs.scale, from_zero = static_cast<float>(call.attrs.zero_point);
  const auto zero = I::all(call.attrs.zero_point);
  const auto below_half = F::all(std::nextafter(0.5f, 0.0f));  // so that nothing below a half is rounded up to one
  // Bounds of what is given to `divided` and of what comes out are those of int8, which no rounding here can pass.
  const auto quantized = [&](float step, const auto& divided) {
    const auto low = F::all((kLowest - from_zero - 0.25f) * step), high = F::all((kHighest - from_zero + 0.25f) * step);
    return unary_rows<I::kLanes, float, int8_t>(call, [=](const float* from, int8_t* to) {
      const auto x = divided(F::load(from), low, high);
      I::store_bytes(to, I::add(I::truncate(x + F::with_sign_of(below_half, x)), zero));  // halves away from zero
    });
  };
  if constexpr (I::kFuses) {
    if (Quotient<F>::takes(scale)) {
      return quantized(scale, [quotient = Quotient<F>(scale)](auto x, auto low, auto high) {
        return quotient(I::within(x, low, high));
      });
    }
  }
  return quantized(1, [by = F::all(scale)](auto x, auto low, auto high) { return I::within(x / by, low, high); });
}

template <class I, typename T>
Status stored_dequantize(const Call<dequantize_attrs>& call) {
  using F = typename I::F;
  const auto scale = F::all(call.attrs.scale);
  const auto zero = I::all(call.attrs.zero_point);
  return unary_rows<I::kLanes, T, float>(
      call, [=](const T* from, float* to) { F::store(to, I::to_float(I::sub(load_numbers<I>(from), zero)) * scale); });
}

template <class I, typename T>
Status stored_requantize(const Call<requantize_attrs>& call) {
  const auto& attrs = call.attrs;
  return with_scale<I>(Quick::takes(kFarthest<T>, attrs.shift), [&](auto type) {
    const typename decltype(type)::Is scale(attrs.multiplier, attrs.shift);
    const Bounded<I> bounded(stored_of<T>(attrs));
    const auto zero = I::all(attrs.x_zero);
    return unary_rows<I::kLanes, T, T>(
        call, [&](const T* from, T* to) { store_numbers<I>(to, bounded(scale(I::sub(load_numbers<I>(from), zero)))); });
  });
}

// The reference does where there are fewer columns than lanes.
template <class I, typename T>
Status stored_mean(const Call<quantized_mean_attrs>& call, Status (*reference)(const Call<quantized_mean_attrs>&)) {
  constexpr int kLanes = I::kLanes;
  const auto& attrs = call.attrs;
  const Tensor& x = call.in[0];
  const int first = attrs.axes[0], behind = first + attrs.axes.size;
  const int64_t outer = product(x.shape, 0, first), count = product(x.shape, first, behind);
  const int64_t inner = product(x.shape, behind, x.rank()), blocks = (inner + kLanes - 1) / kLanes;
  if (inner < kLanes) return reference(call);
  return with_scale<I>(Quick::takes(kFarthest<T> * count, attrs.shift), [&](auto type) {
    const typename decltype(type)::Is scale(attrs.multiplier, attrs.shift);
    const Bounded<I> bounded(stored_of<T>(attrs));
    const auto zero = I::all(attrs.x_zero);
    parallel_for(call.context.pool, outer * blocks, share(outer * blocks, 32 * count), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / blocks, j = std::min(task % blocks * kLanes, inner - kLanes);  // the last ones overlap
        const T* from = x.as<T>() + i * count * inner + j;
        auto sum = I::all(0);
        for (int64_t m = 0; m < count; ++m) sum = I::add(sum, I::sub(load_numbers<I>(from + m * inner), zero));
        store_numbers<I>(call.y().as<T>() + i * inner + j, bounded(scale(sum)));
      }
    });
    return Status::kOk;
  });
}

template <class I>
Status int8_lookup(const Call<quantized_lookup_attrs>& call) {
  const typename I::Table table(call.in[1].i8());
  return unary_rows<I::kBytes, int8_t, int8_t>(call, table);
}

}  // namespace lite
