#pragma once

#include "kernels/avx512/int_vector.h"
#include "kernels/int8/depthwise.h"
#include "kernels/int8/finish.h"
#include "kernels/int8/tile.h"

namespace lite {

// Layers on int8 with AVX-512 VNNI, which multiplies numbers without sign with numbers that have one: x is moved by 128.
struct Vnni512 : Avx512Int {
  using X = uint8_t;
  using Weight = int8_t;
  using Column = uint8_t;
  static constexpr int kParts = 1 + kQuickParts, kTogether = 4, kOffset = 128, kMostVectors = 4;
  static constexpr int kRows = 4;
  static constexpr bool kQuick = true;

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

  static void multiply(int rows, int vectors, const uint8_t* const* x, const Pieces& pieces,
                       const int32_t* parameters, const int8_t* w, int32_t* sums) {
    using Run = void (*)(const uint8_t* const*, const Pieces&, const int32_t*, const int8_t*, int32_t*);
    using T = DotTile<Vnni512>;
    static constexpr Run kRuns[4][8] = {
        {T::run<1, 1>, T::run<2, 1>, T::run<3, 1>, T::run<4, 1>, T::run<5, 1>, T::run<6, 1>, T::run<7, 1>, T::run<8, 1>},
        {T::run<1, 2>, T::run<2, 2>, T::run<3, 2>, T::run<4, 2>, T::run<5, 2>, T::run<6, 2>, T::run<7, 2>, T::run<8, 2>},
        {T::run<1, 3>, T::run<2, 3>, T::run<3, 3>, T::run<4, 3>, T::run<5, 3>, T::run<6, 3>, T::run<7, 3>, T::run<8, 3>},
        {T::run<1, 4>, T::run<2, 4>, T::run<3, 4>, T::run<4, 4>, T::run<5, 4>, T::run<6, 4>}};
    kRuns[vectors - 1][rows - 1](x, pieces, parameters, w, sums);
  }

  // Four rows of a block's channels, in the order of Blocks. Interleaving within quarters of registers puts four
  // channels of a quarter into each of four vectors.
  template <int W>
  static void interleave_block(int width, const int8_t* const* rows, uint8_t* to) {
    if (W == 4) {
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
      return;
    }
#pragma GCC unroll 3
    for (int part = 0; part < W; ++part) {
      const __mmask16 there = part + 1 < W ? 0xffff : static_cast<__mmask16>((1u << (width - 16 * part)) - 1);
      const __m128i sign = _mm_set1_epi8(-128);
      const auto row = [&](int i) { return _mm_xor_si128(_mm_maskz_loadu_epi8(there, rows[i] + 16 * part), sign); };
      const __m128i a = row(0), b = row(1), c = row(2), d = row(3);
      const __m128i low_ab = _mm_unpacklo_epi8(a, b), high_ab = _mm_unpackhi_epi8(a, b);
      const __m128i low_cd = _mm_unpacklo_epi8(c, d), high_cd = _mm_unpackhi_epi8(c, d);
      const auto put = [&](int four, __m128i v) {
        _mm_store_si128(reinterpret_cast<__m128i*>(to + four % W * 64 + four / W * 16), v);
      };
      put(4 * part, _mm_unpacklo_epi16(low_ab, low_cd));
      put(4 * part + 1, _mm_unpackhi_epi16(low_ab, low_cd));
      put(4 * part + 2, _mm_unpacklo_epi16(high_ab, high_cd));
      put(4 * part + 3, _mm_unpackhi_epi16(high_ab, high_cd));
    }
  }

  static void interleave(int vectors, int width, const int8_t* const* rows, uint8_t* to) {
    using Run = void (*)(int, const int8_t* const*, uint8_t*);
    static constexpr Run kRuns[4] = {interleave_block<1>, interleave_block<2>, interleave_block<3>,
                                     interleave_block<4>};
    kRuns[vectors - 1](width, rows, to);
  }

  static void multiply_columns(int vectors, const uint8_t* columns, int64_t count, int64_t groups, int64_t step,
                               const int32_t* parameters, const int8_t* w, int32_t* sums) {
    using Run = void (*)(const uint8_t*, int64_t, int64_t, int64_t, const int32_t*, const int8_t*, int32_t*);
    static constexpr Run kRuns[4] = {dot_columns<Vnni512, 1>, dot_columns<Vnni512, 2>, dot_columns<Vnni512, 3>,
                                     dot_columns<Vnni512, 4>};
    kRuns[vectors - 1](columns, count, groups, step, parameters, w, sums);
  }

  static void finish(bool quick, int rows, int vectors, const int32_t* sums, const int32_t* parameters,
                     const Stored& stored, int8_t* y, int64_t y_step, int width) {
    using Run = void (*)(bool, int, const int32_t*, const int32_t*, const Stored&, int8_t*, int64_t, int);
    using F = Finish<Avx512Int>;
    static constexpr Run kRuns[4] = {F::rows<1>, F::rows<2>, F::rows<3>, F::rows<4>};
    kRuns[vectors - 1](quick, rows, sums, parameters, stored, y, y_step, width);
  }
};

}  // namespace lite
