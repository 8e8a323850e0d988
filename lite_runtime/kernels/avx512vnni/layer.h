#pragma once

#include "kernels/avx512/int_vector.h"
#include "kernels/int8/finish.h"
#include "kernels/int8/interleave_x86.h"
#include "kernels/int8/tile.h"

namespace lite {

// Layers on int8 with AVX-512 VNNI, which multiplies numbers without sign with numbers that have one: x is moved by
// 128.
struct Vnni512 : Avx512Int, DotKernels<Vnni512> {
  using X = uint8_t;
  using Weight = int8_t;
  using Column = uint8_t;
  using Finish = lite::Finish<Avx512Int>;
  static constexpr int kParts = 1 + kQuickParts, kTogether = 4, kOffset = 128, kMostVectors = 4;
  static constexpr int kRows = 4;

  static constexpr int rows_of(int vectors) { return vectors == 4 ? 6 : 8; }

  static void convert(const int8_t* x, int64_t n, uint8_t* y) {
    const __m512i sign = _mm512_set1_epi8(-128);
    for (; n >= 64; n -= 64, x += 64, y += 64) store(y, _mm512_xor_si512(load(x), sign));
    if (n == 0) return;
    const __mmask64 rest = (__mmask64{1} << n) - 1;
    _mm512_mask_storeu_epi8(y, rest, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, x), sign));
  }

  static V broadcast(const uint8_t* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof four);
    return _mm512_set1_epi32(four);
  }
  static V dot(V sum, V x, V w) { return _mm512_dpbusd_epi32(sum, x, w); }

  static void interleave(int vectors, int width, const int8_t* const* rows, const int64_t* steps, int64_t count,
                         uint8_t* to, int64_t to_step) {
    using Run = void (*)(int, const int8_t* const*, const int64_t*, int64_t, uint8_t*, int64_t);
    static constexpr Run kRuns[4] = {interleave_parts<1>, interleave_parts<2>, interleave_parts<3>, interleave_whole};
    kRuns[vectors - 1](width, rows, steps, count, to, to_step);
  }

 private:
  template <int W>
  static void interleave_parts(int width, const int8_t* const* rows, const int64_t* steps, int64_t count, uint8_t* to,
                               int64_t to_step) {
    const __mmask16 last = static_cast<__mmask16>((1u << (width - 16 * (W - 1))) - 1);
    for (int64_t j = 0; j < count; ++j, to += to_step) {
#pragma GCC unroll 3
      for (int part = 0; part < W; ++part) {
        const auto row = [&](int i) {
          const int8_t* at = rows[i] + j * steps[i] + 16 * part;
          return _mm_xor_si128(_mm_maskz_loadu_epi8(part + 1 < W ? 0xffff : last, at), _mm_set1_epi8(-128));
        };
        interleave_sixteen<W, 64>(row(0), row(1), row(2), row(3), 4 * part, to);
      }
    }
  }

  // Interleaving within quarters of registers puts four channels of a quarter into each of four vectors.
  static void interleave_whole(int width, const int8_t* const* rows, const int64_t* steps, int64_t count, uint8_t* to,
                               int64_t to_step) {
    const __mmask64 there = width == 64 ? ~__mmask64{0} : (__mmask64{1} << width) - 1;
    for (int64_t j = 0; j < count; ++j, to += to_step) {
      const auto row = [&](int i) {
        return _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, rows[i] + j * steps[i]), _mm512_set1_epi8(-128));
      };
      const __m512i a = row(0), b = row(1), c = row(2), d = row(3);
      const __m512i low_ab = _mm512_unpacklo_epi8(a, b), high_ab = _mm512_unpackhi_epi8(a, b);
      const __m512i low_cd = _mm512_unpacklo_epi8(c, d), high_cd = _mm512_unpackhi_epi8(c, d);
      store(to, _mm512_unpacklo_epi16(low_ab, low_cd));
      store(to + 64, _mm512_unpackhi_epi16(low_ab, low_cd));
      store(to + 128, _mm512_unpacklo_epi16(high_ab, high_cd));
      store(to + 192, _mm512_unpackhi_epi16(high_ab, high_cd));
    }
  }
};

}  // namespace lite
