#pragma once

#include <cmath>
#include <new>

#include "kernels/int8/elements.h"

// quantized_add and quantized_mul on T, int8 or int16, for any instruction set. On int8 a shorter formula is tried on
// all that two operands can be, once a model is open; it serves where it never differs from the reference in a bit.
//
// An instruction set has what int8/elements.h wants, Bytes as int8/pool.h has them, and
//   PairSum(high, low)(a, b, v)      256 (a high[0] + b high[1]) + 256 (a low[0] + b low[1]) / 2^14, the second term
//                                    rounded down, of kBytes numbers: vectors of 32-bit lanes in an order of their own
//   products(a, b, a_zero, b_zero, v)   (a - a_zero) (b - b_zero) as vectors in that order
//   round(f)                         float vectors to integers, to nearest
//   narrow(v, zero)                  such vectors as Bytes: `zero` is added to 16 bits, and all saturates
//   narrow_down(v, shift, zero)      the same of v >> shift, which is 16 to 29; v may change
//   min_bytes(a, b), all_bytes(x)

namespace lite {

// How the rows of y pair elements of two operands by the numpy rule. One with the same numbers for every row shows them
// several times, so that short rows become a long one; one with a single number for a whole row shows it, and stays.
template <class I, typename T>
class PairedRows {
 public:
  PairedRows(const Tensor& a, const Tensor& b, const Tensor& y)
      : y_(y), same_(a.shape == y.shape && b.shape == y.shape) {
    const int64_t n = y.elements();
    row = same_ ? std::min<int64_t>(n, 1 << 14) : y.dim(-1);
    if (2 * row <= kShown && ((a.shape == y.shape && repeats(b)) || (b.shape == y.shape && repeats(a)))) {
      joins_ = true;
      const T* const own = (a.shape == y.shape ? b : a).template as<T>();
      const int64_t copies = kShown / row;
      for (int64_t i = 0; i < copies; ++i) std::copy_n(own, row, shown_ + i * row);
      row *= copies;
    }
    count = (n + row - 1) / row;
  }

  int64_t row, count;  // elements of a row, of which the last one may have fewer; rows

  bool stays(const Tensor& x) const { return !same_ && (x.rank() == 0 || x.dim(-1) == 1); }

  // Where an operand's elements for those of y from `at` on are; `shown` has room for `wide` of them.
  __attribute__((noinline)) const T* start(const Tensor& x, int64_t at, T* shown, int wide) const {
    if (same_ || x.shape == y_.shape) return x.as<T>() + at;
    if (joins_) return shown_;
    const T* from = x.as<T>() + (repeats(x) ? 0 : broadcast_offset(x.shape, y_.shape, at));
    if (!stays(x)) return from;
    std::fill_n(shown, wide, *from);
    return shown;
  }

 private:
  static constexpr int64_t kShown = 1024;

  bool repeats(const Tensor& x) const { return !same_ && !stays(x) && x.elements() == y_.dim(-1); }

  const Tensor& y_;
  bool same_, joins_ = false;
  T shown_[kShown];
};

// together(a, b, y): kWide results, for elements that the numpy rule pairs.
template <class I, typename T, typename Attrs, typename Together>
Status binary_rows(const Call<Attrs>& call, const Together& together) {
  constexpr int kWide = Together::kWide;
  const Tensor &a = call.in[0], &b = call.in[1], &y = call.y();
  const int64_t n = y.elements();
  if (n == 0) return Status::kOk;
  const PairedRows<I, T> rows(a, b, y);
  const int64_t a_by = rows.stays(a) ? 0 : kWide, b_by = rows.stays(b) ? 0 : kWide, cost = kElementCost * rows.row;
  parallel_for(call.context.pool, rows.count, share(rows.count, cost), [&](int64_t begin, int64_t end) {
    const Together compute = together;  // copies that bytes written to y cannot be in: they stay in registers
    for (int64_t at = begin * rows.row; at < std::min(end * rows.row, n); at += rows.row) {
      T shown[2][kWide], last[3][kWide] = {};
      const int64_t count = std::min(rows.row, n - at);
      const T *from_a = rows.start(a, at, shown[0], kWide), *from_b = rows.start(b, at, shown[1], kWide);
      T* to = y.as<T>() + at;
      int64_t i = 0;
      for (; i + kWide <= count; i += kWide, from_a += a_by, from_b += b_by) compute(from_a, from_b, to + i);
      if (i == count) continue;
      std::copy_n(from_a, count - i, last[0]);
      std::copy_n(from_b, count - i, last[1]);
      compute(last[0], last[1], last[2]);
      std::copy_n(last[2], count - i, to + i);
    }
  });
  return Status::kOk;
}

// a b or a + b step by step, kLanes at a time.
template <class I, typename T, class Rescale>
struct ExactMul {
  static constexpr int kWide = I::kLanes;
  Rescale scale;
  Bounded<I> bounded;
  typename I::V zero_a, zero_b;

  explicit ExactMul(const quantized_mul_attrs& attrs)
      : scale(attrs.multiplier, attrs.shift),
        bounded(stored_of<T>(attrs)),
        zero_a(I::all(attrs.a_zero)),
        zero_b(I::all(attrs.b_zero)) {}
  void operator()(const T* from_a, const T* from_b, T* to) const {
    const auto a = I::sub(load_numbers<I>(from_a), zero_a), b = I::sub(load_numbers<I>(from_b), zero_b);
    store_numbers<I>(to, bounded(scale(I::times(a, b))));
  }
};

template <class I, typename T, class Rescale>
struct ExactAdd {
  static constexpr int kWide = I::kLanes;
  Rescale scale_a, scale_b, scale_y;
  Bounded<I> bounded;
  typename I::V zero_a, zero_b, fine;

  explicit ExactAdd(const quantized_add_attrs& attrs)
      : scale_a(attrs.a_multiplier, attrs.a_shift),
        scale_b(attrs.b_multiplier, attrs.b_shift),
        scale_y(attrs.y_multiplier, attrs.y_shift),
        bounded(stored_of<T>(attrs)),
        zero_a(I::all(attrs.a_zero)),
        zero_b(I::all(attrs.b_zero)),
        fine(I::all(attrs.left_shift)) {}
  void operator()(const T* from_a, const T* from_b, T* to) const {
    const auto a = scale_a(I::shift_left(I::sub(load_numbers<I>(from_a), zero_a), fine));
    const auto b = scale_b(I::shift_left(I::sub(load_numbers<I>(from_b), zero_b), fine));
    store_numbers<I>(to, bounded(scale_y(I::add(a, b))));
  }
};

// body(Type<the class that computes exactly>)
template <class I, typename T, typename Body>
Status with_exact(const quantized_add_attrs& attrs, const Body& body) {
  const int64_t bound = kFarthest<T> << attrs.left_shift;  // of what is scaled, and then of half their sum
  const bool quick = Quick::takes(bound, attrs.a_shift) && Quick::takes(bound, attrs.b_shift) &&
                     Quick::takes(2 * bound, attrs.y_shift);
  return with_scale<I>(quick, [&](auto type) { return body(Type<ExactAdd<I, T, typename decltype(type)::Is>>()); });
}

template <class I, typename T, typename Body>
Status with_exact(const quantized_mul_attrs& attrs, const Body& body) {
  return with_scale<I>(Quick::takes(kFarthest<T> * kFarthest<T>, attrs.shift),
                       [&](auto type) { return body(Type<ExactMul<I, T, typename decltype(type)::Is>>()); });
}

// What the short formulas are made of; a cache line.
struct ShortFormula {
  int32_t found = 0;              // whether it is right
  int16_t high[2], low[2], zero;  // of a sum
  int32_t shift, constant;
  float factor, nudge;  // of a product
  char rest[32];
};
static_assert(sizeof(ShortFormula) == 64, "as KERNEL's PREPARE promises");

// a + b as numbers with `shift` binary places: factors of 14 binary digits, the next 14, and a constant.
template <class I>
struct ShortAdd {
  using Attrs = quantized_add_attrs;
  static constexpr int kWide = I::kBytes, kTries = 9;
  typename I::PairSum weigh;
  typename I::V constant;
  int shift, zero;
  typename I::Bytes least, most;

  ShortAdd(const ShortFormula& f, const Attrs& attrs)
      : weigh(f.high, f.low),
        constant(I::all(f.constant)),
        shift(f.shift),
        zero(f.zero),
        least(I::all_bytes(attrs.low)),
        most(I::all_bytes(attrs.high)) {}

  void operator()(const int8_t* a, const int8_t* b, int8_t* y) const {
    typename I::V v[I::kBytes / I::kLanes];
    weigh(I::load_all(a), I::load_all(b), v);
#pragma GCC unroll 4
    for (int i = 0; i < I::kBytes / I::kLanes; ++i) v[i] = I::add(v[i], constant);
    I::store_all(y, I::min_bytes(I::max_bytes(I::narrow_down(v, shift, zero), least), most));
  }

  // The formula number `n`, with a constant that is some steps off; false where nothing fits.
  static bool make(const Attrs& attrs, int n, ShortFormula& f) {
    const double y = std::ldexp(attrs.y_multiplier, attrs.y_shift - 31 + attrs.left_shift);
    const double ratio[2] = {y * std::ldexp(attrs.a_multiplier, attrs.a_shift - 31),
                             y * std::ldexp(attrs.b_multiplier, attrs.b_shift - 31)};
    const double larger = std::max(ratio[0], ratio[1]);
    if (!(larger > 0)) return false;
    f.shift = 21 - std::ilogb(larger);
    if (f.shift < 16 || f.shift > 29) return false;
    for (int i = 0; i < 2; ++i) {
      const double factor = std::ldexp(ratio[i], f.shift - 8), whole = std::nearbyint(factor);
      f.high[i] = static_cast<int16_t>(whole);
      f.low[i] = static_cast<int16_t>(std::nearbyint(std::ldexp(factor - whole, 14)));
    }
    const double offset = -ratio[0] * attrs.a_zero - ratio[1] * attrs.b_zero, below = std::floor(offset);
    if (std::abs(below) > 1 << 14) return false;
    f.zero = static_cast<int16_t>(static_cast<int>(below) + attrs.y_zero);
    const int steps = n % 2 != 0 ? (n + 1) / 2 : -n / 2;
    f.constant = static_cast<int32_t>(std::ldexp(offset - below, f.shift)) + (1 << (f.shift - 1)) + steps;
    return true;
  }
};

// a b as a float, times a factor; halves of the last place but one, away from zero, are what its two roundings differ
// by from one.
template <class I>
struct ShortMul {
  using Attrs = quantized_mul_attrs;
  using F = typename I::F;
  static constexpr int kWide = I::kBytes, kTries = 8;
  typename F::V factor, nudge;
  int a_zero, b_zero, y_zero;
  typename I::Bytes least, most;

  ShortMul(const ShortFormula& f, const Attrs& attrs)
      : factor(F::all(f.factor)),
        nudge(F::all(f.nudge)),
        a_zero(attrs.a_zero),
        b_zero(attrs.b_zero),
        y_zero(attrs.y_zero),
        least(I::all_bytes(attrs.low)),
        most(I::all_bytes(attrs.high)) {}

  void operator()(const int8_t* a, const int8_t* b, int8_t* y) const {
    typename I::V v[I::kBytes / I::kLanes];
    I::products(I::load_all(a), I::load_all(b), a_zero, b_zero, v);
#pragma GCC unroll 4
    for (int i = 0; i < I::kBytes / I::kLanes; ++i) {
      const auto x = I::to_float(v[i]);
      v[i] = I::round(x * factor + F::with_sign_of(nudge, x));
    }
    I::store_all(y, I::min_bytes(I::max_bytes(I::narrow(v, y_zero), least), most));
  }

  // The factor is some steps off: a little too large, it rounds halves away from zero.
  static bool make(const Attrs& attrs, int n, ShortFormula& f) {
    const double factor = std::ldexp(attrs.multiplier, attrs.shift - 31);
    f.factor = static_cast<float>(factor);
    f.nudge = attrs.shift < 0 ? static_cast<float>(std::ldexp(0.5, attrs.shift)) : 0.0f;
    for (int i = 0; i < (n + 1) / 2; ++i) f.factor = std::nextafter(f.factor, n % 2 != 0 ? 1e30f : 0.0f);
    return factor < 1 << 14;  // products stay within 31 bits
  }
};

// Whether two ways to compute agree on everything.
template <class Short, class Exact>
bool agree(const Short& brief, const Exact& exact) {
  int8_t all[256], same[Short::kWide], y[Short::kWide], want[Short::kWide];
  for (int i = 0; i < 256; ++i) all[i] = static_cast<int8_t>(i + kLowest);
  for (int a = kLowest; a <= kHighest; ++a) {
    std::fill_n(same, Short::kWide, static_cast<int8_t>(a));
    for (int b = 0; b < 256; b += Short::kWide) {
      brief(same, all + b, y);
      for (int i = 0; i < Short::kWide; i += Exact::kWide) exact(same, all + b + i, want + i);
      if (!std::equal(y, y + Short::kWide, want)) return false;
    }
  }
  return true;
}

template <class I, template <class> class Short, typename Attrs>
uint64_t prepare_short(const Call<Attrs>& call, void* to) {
  if (to == nullptr) return sizeof(ShortFormula);
  ShortFormula* formula = new (to) ShortFormula();
  for (int n = 0; n < Short<I>::kTries && formula->found == 0 && Short<I>::make(call.attrs, n, *formula); ++n) {
    with_exact<I, int8_t>(call.attrs, [&](auto type) {
      formula->found = agree(Short<I>(*formula, call.attrs), typename decltype(type)::Is(call.attrs));
      return Status::kOk;
    });
  }
  return sizeof(ShortFormula);
}

template <class I, typename T, typename Attrs>
Status exact_binary(const Call<Attrs>& call) {
  return with_exact<I, T>(call.attrs, [&](auto type) {
    using Exact = typename decltype(type)::Is;
    return binary_rows<I, T>(call, Exact(call.attrs));
  });
}

template <class I, template <class> class Short, typename Attrs>
Status int8_binary(const Call<Attrs>& call) {
  const ShortFormula* formula = static_cast<const ShortFormula*>(call.context.prepared);
  if (formula != nullptr && formula->found != 0) {
    return binary_rows<I, int8_t>(call, Short<I>(*formula, call.attrs));
  }
  return exact_binary<I, int8_t>(call);
}

}  // namespace lite
