#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/half.h"
#include "core/kernel.h"

// Fixed-point arithmetic of int8 and int16 kernels, bit for bit that of ir/quantization.py and so of TFLite's reference
// kernels but for FULLY_CONNECTED of int16, whose multiplier has all its bits there.

namespace lite {

constexpr int kLowest = -128, kHighest = 127;  // of int8
constexpr int kLowest16 = -32768, kHighest16 = 32767;
constexpr int kLeastShift = -31, kMostShift = 30;  // of a multiplier
constexpr int kMostLeftShift = 22;                 // of quantized_add: 255 shifted so far still fits
constexpr int kMostLeftShift16 = 15;               // and 2^15
constexpr int kMostShift16 = 7;                    // of the multiplier of a layer on 16 bits
constexpr int64_t kMostBias16 = int64_t{1} << 46;  // so that a sum fits 48 bits, and with its multiplier 64
constexpr int64_t kMostTaps16 = int64_t{1} << 23;

inline bool is_int8(int value) { return kLowest <= value && value <= kHighest; }
inline bool is_int16(int value) { return kLowest16 <= value && value <= kHighest16; }
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

// The same of a sum of 64 bits below 2^48, by the upper 16 bits of the multiplier, rounded once (halves up).
inline int64_t upper_half(int32_t multiplier) {
  return multiplier < 0x7fff0000 ? (int64_t{multiplier} + (1 << 15)) >> 16 : 0x7fff;
}
inline int64_t scale_sum(int64_t x, int32_t multiplier, int shift) {
  const int right = 15 - shift;
  return (x * upper_half(multiplier) + (int64_t{1} << (right - 1))) >> right;
}

// Where stored results may lie, and what is added to them.
template <typename T>
struct StoredAs {
  int zero, low, high;

  T operator()(int64_t x) const { return static_cast<T>(std::clamp<int64_t>(x + zero, low, high)); }
};
using Stored = StoredAs<int8_t>;

// Whether a zero point and bounds are such numbers of a type. Those of 16 bits have no zero point.
inline bool is_zero_of(DType dtype, int zero) { return dtype == DType::i8 ? is_int8(zero) : zero == 0; }
inline bool are_bounds(DType dtype, int low, int high) {
  return low <= high && (dtype == DType::i8 ? is_int8(low) && is_int8(high) : is_int16(low) && is_int16(high));
}
inline bool is_stored_type(DType dtype) { return dtype == DType::i8 || dtype == DType::i16; }

// Whether attributes y_zero, low and high are such numbers.
template <typename Attrs>
bool is_stored(const Attrs& attrs, DType dtype) {
  return is_zero_of(dtype, attrs.y_zero) && are_bounds(dtype, attrs.low, attrs.high);
}

template <typename T = int8_t, typename Attrs>
StoredAs<T> stored_of(const Attrs& attrs) {
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

// The same of a layer on int16, whose sums have 64 bits.
struct Channels16 {
  const int64_t* bias;
  Channels rest;  // without a bias

  int16_t finish(int64_t sum, int channel, const StoredAs<int16_t>& stored) const {
    const FixedPoint by = rest.scale(channel);
    return stored(scale_sum(sum + bias[channel], by.multiplier, by.shift));
  }

  bool valid(int channels) const {
    for (int k = 0; k < channels; ++k) {
      if (rest.scale(k).shift > kMostShift16 || bias[k] > kMostBias16 || bias[k] < -kMostBias16) return false;
    }
    return rest.valid(channels);
  }
};

// Of a call with inputs x, w, bias, multiplier and, where multipliers are integers, shift.
template <typename Attrs>
Channels channels_of(const Call<Attrs>& call) {
  const Tensor* shift = call.optional(4);
  if (shift == nullptr) return {call.in[2].i32(), nullptr, nullptr, call.in[3].template as<Half>()};
  return {call.in[2].i32(), call.in[3].i32(), shift->i32(), nullptr};
}

template <typename Attrs>
Channels16 channels16_of(const Call<Attrs>& call) {
  return {call.in[2].template as<int64_t>(), channels_of(call)};
}

}  // namespace lite
