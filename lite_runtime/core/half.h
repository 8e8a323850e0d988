#pragma once

#include <cstdint>
#include <cstring>

namespace lite {

// A 16-bit float of IEEE 754 as it lies in memory: to be converted, not to be computed with.
struct Half {
  uint16_t bits = 0;
};

inline float to_float(Half h) {
  const uint32_t sign = (h.bits & 0x8000u) << 16, exponent = (h.bits >> 10) & 31u, fraction = h.bits & 0x3ffu;
  uint32_t bits = sign | (exponent + 112) << 23 | fraction << 13;
  if (exponent == 31) bits |= 0x7f800000u;
  float f;
  if (exponent == 0) {  // a multiple of 2^-24
    f = static_cast<float>(fraction) * 5.9604644775390625e-8f;
    return sign != 0 ? -f : f;
  }
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

// The nearest Half; from the middle, the even one.
inline Half to_half(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  bits &= 0x7fffffffu;
  const auto with = [sign](uint32_t rest) { return Half{static_cast<uint16_t>(sign | rest)}; };
  if (bits > 0x7f800000u) return with(0x7e00u);   // not a number
  if (bits >= 0x477ff000u) return with(0x7c00u);  // rounds to infinity
  if (bits < 0x38800000u) {                       // rounds to a multiple of 2^-24, which 0.5 has for its last place
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof bits);
    return with(bits - 0x3f000000u);
  }
  return with((bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

}  // namespace lite
