#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/half.h"
#include "core/kernel.h"

// Fixed-point arithmetic of int8 kernels, bit for bit that of ir/quantization.py and of TFLite's reference kernels.

namespace lite {

constexpr int kLowest = -128, kHighest = 127;      // of int8
constexpr int kLeastShift = -31, kMostShift = 30;  // of a multiplier
constexpr int kMostLeftShift = 22;                 // of quantized_add: 255 shifted so far still fits

inline bool is_int8(int value) { return kLowest <= value && value <= kHighest; }
inline bool is_shift(int value) { return kLeastShift <= value && value <= kMostShift; }
inline bool is_multiplier(int multiplier, int shift) { return multiplier >= 0 && is_shift(shift); }
inline bool is_scale(float value) { return std::isfinite(value) && value > 0; }

// As 32-bit arithmetic leaves it.
inline int32_t wrap32(int64_t x) { return static_cast<int32_t>(static_cast<uint32_t>(x)); }

// x * multiplier / 2^31 * 2^shift, for multiplier >= 0: the doubled product's high half rounded to nearest (halves up),
// then the right shift rounded to nearest (halves away from zero).
inline int32_t scale_by_multiplier(int32_t x, int32_t multiplier, int shift) {
  const int left = std::max(shift, 0), right = std::max(-shift, 0);
  const int32_t shifted = wrap32(static_cast<int64_t>(x) * (int64_t{1} << left));
  const int32_t high = static_cast<int32_t>((int64_t{shifted} * multiplier + (int64_t{1} << 30)) >> 31);
  const int32_t mask = static_cast<int32_t>((int64_t{1} << right) - 1), rest = high & mask;
  return static_cast<int32_t>(int64_t{high} >> right) + (rest > (mask >> 1) + (high < 0) ? 1 : 0);
}

// Where stored results may lie, and what is added to them.
struct Stored {
  int zero, low, high;

  int8_t operator()(int32_t x) const { return static_cast<int8_t>(std::clamp<int64_t>(int64_t{x} + zero, low, high)); }
};

// Whether attributes y_zero, low and high are such numbers.
template <typename Attrs>
bool is_stored(const Attrs& attrs) {
  return is_int8(attrs.y_zero) && is_int8(attrs.low) && is_int8(attrs.high) && attrs.low <= attrs.high;
}

template <typename Attrs>
Stored stored_of(const Attrs& attrs) {
  return {attrs.y_zero, attrs.low, attrs.high};
}

// A real number as multiplier / 2^31 * 2^shift.
struct FixedPoint {
  int32_t multiplier;
  int shift;

  bool valid() const { return is_multiplier(multiplier, shift); }

  // Exactly `real`; of a number below 0 or none, one that is not valid.
  static FixedPoint of(Half real) {
    const int exponent = real.bits >> 10, fraction = real.bits & 0x3ff;  // the sign is the exponent's highest bit
    if (exponent >= 31) return {-1, 0};
    int multiplier = exponent == 0 ? fraction : fraction | 0x400, shift = std::max(exponent, 1) + 6;
    if (multiplier == 0) return {0, 0};
    for (; multiplier < 1 << 30; --shift) multiplier *= 2;
    return {multiplier, shift};
  }
};

// The inputs of a layer on int8: bias and multiplier of each channel, these as pairs of integers or as halves.
struct Channels {
  const int32_t *bias, *multiplier, *shift;
  const Half* real;

  FixedPoint scale(int64_t k) const {
    return real != nullptr ? FixedPoint::of(real[k]) : FixedPoint{multiplier[k], shift[k]};
  }

  int8_t finish(int64_t sum, int channel, const Stored& stored) const {
    const FixedPoint by = scale(channel);
    return stored(scale_by_multiplier(wrap32(sum + bias[channel]), by.multiplier, by.shift));
  }

  // They are data, so that a kernel looks at them before it trusts them.
  bool valid(int channels) const {
    for (int k = 0; k < channels; ++k) {
      if (!scale(k).valid()) return false;
    }
    return true;
  }
};

// Of a call with inputs x, w, bias, multiplier and, where multipliers are integers, shift.
template <typename Attrs>
Channels channels_of(const Call<Attrs>& call) {
  const Tensor* shift = call.optional(4);
  if (shift == nullptr) return {call.in[2].i32(), nullptr, nullptr, call.in[3].template as<Half>()};
  return {call.in[2].i32(), call.in[3].i32(), shift->i32(), nullptr};
}

}  // namespace lite
