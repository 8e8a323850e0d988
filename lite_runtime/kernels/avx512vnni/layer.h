#pragma once

#include "kernels/avx512/int_vector.h"
#include "kernels/int8/finish.h"
#include "kernels/int8/interleave_x86.h"
#include "kernels/int8/tile.h"

namespace lite {

// Layers on int8 with AVX-512 VNNI, which multiplies numbers without sign with numbers that have one: x is moved by 128.
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

  static void interleave(int vectors, int width, const int8_t* const* rows, uint8_t* to) {
    if (vectors == 1) return interleave_block<1>(width, rows, to);
    if (vectors == 2) return interleave_block<2>(width, rows, to);
    if (vectors == 3) return interleave_block<3>(width, rows, to);
    // Interleaving within quarters of registers puts four channels of a quarter into each of four vectors.
    const __mmask64 there = width == 64 ? ~__mmask64{0} : (__mmask64{1} << width) - 1;
    const __m512i sign = _mm512_set1_epi8(-128);
    const auto row = [&](int i) { return _mm512_xor_si512(_mm512_maskz_loadu_epi8(there, rows[i]), sign); };
    const __m512i a = row(0), b = row(1), c = row(2), d = row(3);
    const __m512i low_ab = _mm512_unpacklo_epi8(a, b), high_ab = _mm512_unpackhi_epi8(a, b);
    const __m512i low_cd = _mm512_unpacklo_epi8(c, d), high_cd = _mm512_unpackhi_epi8(c, d);
    store(to, _mm512_unpacklo_epi16(low_ab, low_cd));
    store(to + 64, _mm512_unpackhi_epi16(low_ab, low_cd));
    store(to + 128, _mm512_unpacklo_epi16(high_ab, high_cd));
    store(to + 192, _mm512_unpackhi_epi16(high_ab, high_cd));
  }

 private:
  template <int W>
  static void interleave_block(int width, const int8_t* const* rows, uint8_t* to) {
#pragma GCC unroll 3
    for (int part = 0; part < W; ++part) {
      const __mmask16 there = part + 1 < W ? 0xffff : static_cast<__mmask16>((1u << (width - 16 * part)) - 1);
      const auto row = [&](int i) {
        return _mm_xor_si128(_mm_maskz_loadu_epi8(there, rows[i] + 16 * part), _mm_set1_epi8(-128));
      };
      interleave_sixteen<W, 64>(row(0), row(1), row(2), row(3), 4 * part, to);
    }
  }
};

}  // namespace lite
