#pragma once

#include <cstring>

#include "kernels/quantized.h"

// scale_by_multiplier on vectors that multiply pairs of 32-bit numbers to 64 bits: x86.
//
// An instruction set gives 32-bit lanes as I::V, and
//   load, all, add, sub, min, max, shift_left, shift_right, shift_right_signed   lane by lane, shifts by vectors
//   odd(v)                     the odd lanes where the even ones were
//   product64(a, b), product64_unsigned(a, b)   64-bit products of the even lanes
//   add64(a, b)
//   high(even, odd)            the upper halves of 64-bit lanes, in the places that the factors had
//   high31(even, odd)          the same of bits 31 to 62
//   and_bits, above(a, b)      above: -1 where a > b
//   lanes(n), all              vectors of 64-bit numbers hold them in pairs of lanes

namespace lite {

// The general way, as kernels/quantized.h has it step by step. It takes whatever fits into 32 bits.
template <class I>
struct Scale {
  using V = typename I::V;
  V multiplier, left, right, mask, half, nudge;

  Scale(V the_multiplier, V shift) : multiplier(the_multiplier) {
    const V none = I::all(0);
    left = I::max(shift, none);
    right = I::max(I::sub(none, shift), none);
    mask = I::sub(I::shift_left(I::all(1), right), I::all(1));
    half = I::shift_right(mask, I::all(1));
    nudge = I::all64(int64_t{1} << 30);
  }
  Scale(int the_multiplier, int shift) : Scale(I::all(the_multiplier), I::all(shift)) {}

  V operator()(V sum) const {
    const V x = I::shift_left(sum, left);
    const V even = I::add64(I::product64(x, multiplier), nudge);
    const V odd = I::add64(I::product64(I::odd(x), I::odd(multiplier)), nudge);
    const V high = I::high31(even, odd);
    const V threshold = I::sub(half, I::shift_right_signed(high, I::all(31)));
    const V up = I::above(I::and_bits(high, mask), threshold);
    return I::sub(I::shift_right_signed(high, right), up);
  }
};

// The short way. With u = x + 2^31 without sign, the doubled product's rounded high half is the high half of
// u * 2 multiplier + 2^31 - 2^32 multiplier, and what the second rounding adds, and the zero point, can be in the
// constant: half of 2^right, zero * 2^right, and -1, which u's highest bit takes away again where x >= 0. Where results
// are bounded by zero from below, that -1 can only change what becomes the bound anyway, and is left out.
struct Quick {
  uint32_t factor = 0;
  int64_t constant = 0;
  int32_t sign_shift = 32, right = 0;  // the shift that leaves u's highest bit, or none

  // Whether numbers within `bound` of 0 can take it: no shift to the left, and nothing overflows.
  static bool takes(int64_t bound, int shift) { return bound < (int64_t{1} << 30) && shift <= 0 && shift >= -22; }

  static bool has_sign(const Stored& stored) { return stored.low < stored.zero; }

  // With `sign`, numbers below 0 are to be told from others.
  static Quick of(int32_t multiplier, int shift, int zero, bool sign = true) {
    Quick quick;
    quick.factor = static_cast<uint32_t>(multiplier) * 2;
    quick.right = -shift;
    const int64_t half = shift < 0 ? (int64_t{1} << (quick.right - 1)) - (sign ? 1 : 0) : 0;
    const int64_t added = half + zero * (int64_t{1} << quick.right);
    const uint64_t constant =
        (uint64_t{1} << 31) - (static_cast<uint64_t>(multiplier) << 32) + (static_cast<uint64_t>(added) << 32);
    std::memcpy(&quick.constant, &constant, sizeof constant);
    quick.sign_shift = sign && shift < 0 ? 31 : 32;
    return quick;
  }

  // One whose result is always `y`.
  static Quick always(int y) {
    Quick quick;
    quick.constant = int64_t{y} * (int64_t{1} << 32);
    return quick;
  }
};

constexpr int kQuickParts = 6;  // vectors of a lane's numbers: factors, odd ones, constants even and odd, sign, right

// Writes a lane's numbers where QuickScale reads them: parts of `lanes` 32-bit numbers.
inline void store_quick(const Quick& quick, int lanes, int lane, int32_t* to) {
  const int even = lane / 2 * 2, odd_lane = lane % 2;
  std::memcpy(to + lane, &quick.factor, sizeof quick.factor);
  if (odd_lane != 0) std::memcpy(to + lanes + even, &quick.factor, sizeof quick.factor);
  std::memcpy(to + (2 + odd_lane) * lanes + even, &quick.constant, sizeof quick.constant);
  to[4 * lanes + lane] = quick.sign_shift;
  to[5 * lanes + lane] = quick.right;
}

template <class I, bool kSign = true>
struct QuickScale {
  using V = typename I::V;
  V factor, odd_factor, constant, odd_constant, sign_shift, right;

  explicit QuickScale(const int32_t* parts)
      : factor(I::load(parts)),
        odd_factor(I::load(parts + I::kLanes)),
        constant(I::load(parts + 2 * I::kLanes)),
        odd_constant(I::load(parts + 3 * I::kLanes)),
        sign_shift(I::load(parts + 4 * I::kLanes)),
        right(I::load(parts + 5 * I::kLanes)) {}
  // The same for all lanes.
  explicit QuickScale(const Quick& quick)
      : factor(I::all(static_cast<int32_t>(quick.factor))),
        odd_factor(factor),
        constant(I::all64(quick.constant)),
        odd_constant(constant),
        sign_shift(I::all(quick.sign_shift)),
        right(I::all(quick.right)) {}

  // Of u: a number plus 2^31.
  V operator()(V u) const {
    const V even = I::add64(I::product64_unsigned(u, factor), constant);
    const V odd = I::add64(I::product64_unsigned(I::odd(u), odd_factor), odd_constant);
    const V high = I::high(even, odd);
    return I::shift_right_signed(kSign ? I::add(high, I::shift_right(u, sign_shift)) : high, right);
  }
};

}  // namespace lite
