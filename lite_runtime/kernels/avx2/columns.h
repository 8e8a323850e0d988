#pragma once

#include "kernels/avx2/int_vector.h"
#include "kernels/int8/finish.h"
#include "kernels/int8/tile.h"

namespace lite {

// Depthwise convolution on int8 with AVX2: two rows of eight channels in a vector of 16-bit numbers. Some results side
// by side stay in registers until they are int8 again, so that a vector of weights is read once for all of them.
struct Avx2Columns : Avx2Int, DotKernels<Avx2Columns> {
  using Weight = int16_t;
  using Column = int16_t;
  using Finish = lite::Finish<Avx2Int>;
  static constexpr int kParts = 1 + kQuickParts, kOffset = 0, kMostVectors = 2, kRows = 2;
  static constexpr bool kLines = true;

  static constexpr int result_of(int, int v, int lane) { return v * kLanes + lane; }

  // Two rows of a block's channels.
  static void interleave(int vectors, int width, const int8_t* const* rows, const int64_t* steps, int64_t count,
                         int16_t* to, int64_t to_step) {
    const auto pairs = [=](const auto& read) {
      const int8_t *first = rows[0], *second = rows[1];
      const int64_t first_step = steps[0], second_step = steps[1];
      int16_t* at = to;
      for (int64_t j = 0; j < count; ++j, at += to_step, first += first_step, second += second_step) {
        const __m128i a = read(first), b = read(second);
        store(at, _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a, b)));
        if (vectors == 2) store(at + 16, _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a, b)));
      }
    };
    if (width == 16) {
      pairs([](const int8_t* x) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(x)); });
    } else if (width == 8) {
      pairs([](const int8_t* x) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)); });
    } else {
      pairs([width](const int8_t* x) {
        alignas(16) int8_t copy[16] = {};
        std::memcpy(copy, x, static_cast<size_t>(width));
        return _mm_load_si128(reinterpret_cast<const __m128i*>(copy));
      });
    }
  }

  static void line(bool quick, int vectors, int64_t count, const int16_t* x, int64_t x_step, int64_t columns,
                   int64_t groups, int64_t step, const int32_t* parameters, const int16_t* w, const Stored& stored,
                   int8_t* y, int64_t y_step, int width) {
    using Some = void (*)(const Window&, int64_t, const Stored&, int8_t*, int64_t, int);
    const Some some = !quick                    ? &some_of_line<General>
                      : Quick::has_sign(stored) ? &some_of_line<Short<true>>
                                                : &some_of_line<Short<false>>;
    for (int v = 0; v < vectors; ++v) {
      const Window window = {x + 16 * v, w + 16 * v, x_step,       step,
                             columns,    groups,     16 * vectors, parameters + v * kParts * kLanes};
      some(window, count, stored, y + v * kLanes, y_step, std::min(width - v * kLanes, kLanes));
    }
  }

 private:
  static constexpr int kMost = 8;  // results side by side

  // Where the window of the first result begins, and what it is multiplied with.
  struct Window {
    const int16_t *x, *w;
    int64_t x_step, step, columns, groups, vector_step;
    const int32_t* parts;
  };

  template <bool kSign>
  struct Short : QuickScale<Avx2Int, kSign> {
    Short(const int32_t* parts, const Stored&) : QuickScale<Avx2Int, kSign>(parts) {}
  };

  // Bounded before the zero point is added, so that the sum cannot overflow.
  struct General {
    Scale<Avx2Int> scale;
    V zero, low, high;

    General(const int32_t* parts, const Stored& stored)
        : scale(load(parts), load(parts + kLanes)),
          zero(all(stored.zero)),
          low(all(stored.low - stored.zero)),
          high(all(stored.high - stored.zero)) {}
    V operator()(V sum) const { return add(min(max(scale(sum), low), high), zero); }
  };

  template <typename Rescale>
  static void some_of_line(const Window& window, int64_t count, const Stored& stored, int8_t* y, int64_t y_step,
                           int width) {
    const int16_t* x = window.x;
    int64_t q = 0;
    for (; q + kMost <= count; q += kMost, x += kMost * window.x_step) {
      results<kMost, Rescale>(window, x, stored, y + q * y_step, y_step, width);
    }
    if (q == count) return;
    with_number<kMost - 1>(static_cast<int>(count - q), [&](auto rest) {
      results<decltype(rest)::kValue, Rescale>(window, x, stored, y + q * y_step, y_step, width);
    });
  }

  template <int Q, typename Rescale>
  static void results(const Window& window, const int16_t* x, const Stored& stored, int8_t* y, int64_t y_step,
                      int width) {
    V sum[Q];
    const V start = load(window.parts);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) sum[q] = start;
    const int16_t* w = window.w;
    const int64_t next = window.vector_step, x_step = window.x_step, step = window.step;
    const int64_t columns = window.columns, groups = window.groups;
    const auto multiply = [&](const int16_t* from_x, const int16_t* weights) {
      const V from_w = load(weights);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) {
        V next_sum = add(sum[q], _mm256_madd_epi16(load(from_x + q * x_step), from_w));
        asm("" : "+x"(next_sum));  // else products are added to each other first, for which there are no registers
        sum[q] = next_sum;
      }
    };
    if (groups == 2) {
      for (int64_t j = 0; j < columns; ++j, x += step, w += 2 * next) {
        multiply(x, w);
        multiply(x + next, w + next);
      }
    } else {
      for (int64_t j = 0; j < columns; ++j, x += step) {
        for (int64_t g = 0; g < groups; ++g, w += next) multiply(x + g * next, w);
      }
    }
    const Rescale rescale(window.parts + kLanes, stored);
    const Bounds bounds(stored.low, stored.high);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) sum[q] = rescale(sum[q]);
    if (width == kLanes) return store_rows<Q>(sum, bounds, y, y_step);
    int8_t all_lanes[Q * kLanes];
    store_rows<Q>(sum, bounds, all_lanes, kLanes);
    for (int q = 0; q < Q; ++q) std::memcpy(y + q * y_step, all_lanes + q * kLanes, static_cast<size_t>(width));
  }
};

}  // namespace lite
