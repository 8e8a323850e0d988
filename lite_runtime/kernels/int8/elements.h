#pragma once

#include <algorithm>

#include "kernels/int8/rescale.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/share.h"
#include "kernels/windows.h"

// Operators on int8 tensors element by element, and means, for any instruction set.
//
// An instruction set is a class I with 32-bit lanes I::V and what int8/rescale.h names for sums and bounds, and
//   load_bytes(from), store_bytes(to, v)   kLanes numbers of int8
//   Exact                                  scale_by_multiplier for any 32-bit numbers: made of multiplier and shift
//   kQuick                                 whether QuickScale<I> does where it may
//   F, to_float(v), truncate(f)            float vectors with as many lanes, and conversions
//   to_int8_range(f)                       f truncated, within int8; NaN is the lowest
//   Table, kBytes                          Table(256 numbers)(x, y) looks kBytes numbers up

namespace lite {

constexpr int64_t kElementCost = 64;  // operations that one number costs, as share() counts them

// together(a, b, y): kWide results, for elements that the numpy rule pairs.
template <int kWide, typename Attrs, typename Together>
Status binary_rows(const Call<Attrs>& call, const Together& together) {
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const int64_t n = y.elements();
  if (n == 0) return Status::kOk;
  const bool same = a.shape == y.shape && b.shape == y.shape;
  const int64_t row = same ? std::min<int64_t>(n, 1 << 14) : y.dim(-1), rows = (n + row - 1) / row;
  // An operand with one number for a whole row shows it kWide times, and stays.
  const auto stays = [&](const Tensor& x) { return !same && (x.rank() == 0 || x.dim(-1) == 1); };
  const int64_t a_step = stays(a) ? 0 : 1, b_step = stays(b) ? 0 : 1;
  const auto start = [&](const Tensor& x, int64_t at, int64_t step, int8_t* shown) {
    const int8_t* from = x.i8() + (same ? at : broadcast_offset(x.shape, y.shape, at));
    if (step == 0) std::fill_n(shown, kWide, *from);
    return step == 0 ? shown : from;
  };
  parallel_for(call.context.pool, rows, share(rows, kElementCost * row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int8_t shown[2][kWide], last[3][kWide] = {};
      const int64_t count = std::min(row, n - r * row);
      const int8_t *from_a = start(a, r * row, a_step, shown[0]), *from_b = start(b, r * row, b_step, shown[1]);
      int8_t* to = y.i8() + r * row;
      int64_t i = 0;
      for (; i + kWide <= count; i += kWide) together(from_a + i * a_step, from_b + i * b_step, to + i);
      if (i == count) continue;
      std::copy_n(from_a + i * a_step, count - i, last[0]);
      std::copy_n(from_b + i * b_step, count - i, last[1]);
      together(last[0], last[1], last[2]);
      std::copy_n(last[2], count - i, to + i);
    }
  });
  return Status::kOk;
}

// together(x, y): kWide results, from X to Y.
template <int kWide, typename X, typename Y, typename Attrs, typename Together>
Status unary_rows(const Call<Attrs>& call, const Together& together) {
  const X* x = call.in[0].template as<X>();
  Y* y = call.y().template as<Y>();
  const int64_t n = call.y().elements();
  parallel_for(call.context.pool, n, share(n, kElementCost), [&](int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kWide <= end; i += kWide) together(x + i, y + i);
    if (i == end) return;
    X last_x[kWide] = {};
    Y last_y[kWide];
    std::copy(x + i, x + end, last_x);
    together(last_x, last_y);
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

// What Stored does. Bounded before the zero point is added, so that the sum cannot overflow.
template <class I>
struct Bounded {
  typename I::V zero, low, high;

  explicit Bounded(const Stored& stored)
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

template <class I>
Status int8_quantize(const Call<quantize_attrs>& call) {
  using F = typename I::F;
  const auto scale = F::all(call.attrs.scale), zero = F::all(static_cast<float>(call.attrs.zero_point));
  return unary_rows<I::kLanes, float, int8_t>(call, [=](const float* from, int8_t* to) {
    const auto x = F::load(from) / scale, size = F::abs(x), whole = F::floor(size);
    // Halves away from zero; what is not finite stays so.
    const auto up = F::both(F::not_below(size - whole, F::all(0.5f)), F::all(1.0f));
    I::store_bytes(to, I::to_int8_range(F::with_sign_of(whole + up, x) + zero));
  });
}

template <class I>
Status int8_dequantize(const Call<dequantize_attrs>& call) {
  using F = typename I::F;
  const auto scale = F::all(call.attrs.scale);
  const auto zero = I::all(call.attrs.zero_point);
  return unary_rows<I::kLanes, int8_t, float>(call, [=](const int8_t* from, float* to) {
    F::store(to, I::to_float(I::sub(I::load_bytes(from), zero)) * scale);
  });
}

template <class I>
Status int8_requantize(const Call<requantize_attrs>& call) {
  const auto& attrs = call.attrs;
  return with_scale<I>(Quick::takes(255, attrs.shift), [&](auto type) {
    const typename decltype(type)::Is scale(attrs.multiplier, attrs.shift);
    const Bounded<I> bounded(stored_of(attrs));
    const auto zero = I::all(attrs.x_zero);
    return unary_rows<I::kLanes, int8_t, int8_t>(call, [&](const int8_t* from, int8_t* to) {
      I::store_bytes(to, bounded(scale(I::sub(I::load_bytes(from), zero))));
    });
  });
}

template <class I>
Status int8_add(const Call<quantized_add_attrs>& call) {
  const auto& attrs = call.attrs;
  const int64_t bound = int64_t{255} << attrs.left_shift;  // of what is scaled, and then of half their sum
  const bool quick = Quick::takes(bound, attrs.a_shift) && Quick::takes(bound, attrs.b_shift) &&
                     Quick::takes(2 * bound, attrs.y_shift);
  return with_scale<I>(quick, [&](auto type) {
    using Rescale = typename decltype(type)::Is;
    const Rescale scale_a(attrs.a_multiplier, attrs.a_shift), scale_b(attrs.b_multiplier, attrs.b_shift);
    const Rescale scale_y(attrs.y_multiplier, attrs.y_shift);
    const Bounded<I> bounded(stored_of(attrs));
    const auto zero_a = I::all(attrs.a_zero), zero_b = I::all(attrs.b_zero), fine = I::all(attrs.left_shift);
    return binary_rows<I::kLanes>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
      const auto a = scale_a(I::shift_left(I::sub(I::load_bytes(from_a), zero_a), fine));
      const auto b = scale_b(I::shift_left(I::sub(I::load_bytes(from_b), zero_b), fine));
      I::store_bytes(to, bounded(scale_y(I::add(a, b))));
    });
  });
}

template <class I>
Status int8_mul(const Call<quantized_mul_attrs>& call) {
  const auto& attrs = call.attrs;
  return with_scale<I>(Quick::takes(255 * 255, attrs.shift), [&](auto type) {
    const typename decltype(type)::Is scale(attrs.multiplier, attrs.shift);
    const Bounded<I> bounded(stored_of(attrs));
    const auto zero_a = I::all(attrs.a_zero), zero_b = I::all(attrs.b_zero);
    return binary_rows<I::kLanes>(call, [&](const int8_t* from_a, const int8_t* from_b, int8_t* to) {
      const auto a = I::sub(I::load_bytes(from_a), zero_a), b = I::sub(I::load_bytes(from_b), zero_b);
      I::store_bytes(to, bounded(scale(I::times(a, b))));
    });
  });
}

// The reference does where there are fewer columns than lanes.
template <class I>
Status int8_mean(const Call<quantized_mean_attrs>& call, Status (*reference)(const Call<quantized_mean_attrs>&)) {
  constexpr int kLanes = I::kLanes;
  const auto& attrs = call.attrs;
  const Tensor& x = call.in[0];
  const int first = attrs.axes[0], behind = first + attrs.axes.size;
  const int64_t outer = product(x.shape, 0, first), count = product(x.shape, first, behind);
  const int64_t inner = product(x.shape, behind, x.rank()), blocks = (inner + kLanes - 1) / kLanes;
  if (inner < kLanes) return reference(call);
  return with_scale<I>(Quick::takes(255 * count, attrs.shift), [&](auto type) {
    const typename decltype(type)::Is scale(attrs.multiplier, attrs.shift);
    const Bounded<I> bounded(stored_of(attrs));
    const auto zero = I::all(attrs.x_zero);
    parallel_for(call.context.pool, outer * blocks, share(outer * blocks, 32 * count), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t i = task / blocks, j = std::min(task % blocks * kLanes, inner - kLanes);  // the last ones overlap
        const int8_t* from = x.i8() + i * count * inner + j;
        auto sum = I::all(0);
        for (int64_t m = 0; m < count; ++m) sum = I::add(sum, I::sub(I::load_bytes(from + m * inner), zero));
        I::store_bytes(call.y().i8() + i * inner + j, bounded(scale(sum)));
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
