#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/int8/tile.h"
#include "kernels/neon/int_vector.h"

namespace lite {

// Depthwise convolution on int8 with NEON: rows of eight channels. Two products fit into 16 bits where no weight is
// -128, and are then added to sums of 32. Some results side by side stay in registers until they are int8 again, so
// that a vector of weights is read once for all of them.
struct NeonColumns : DotKernels<NeonColumns> {
  using Weight = int8_t;
  using Column = int8_t;
  static constexpr int kLanes = 8, kParts = 3, kOffset = 0, kMostVectors = 2, kRows = 1;
  static constexpr bool kQuick = false, kLines = true;

  static constexpr int result_of(int, int v, int lane) { return v * kLanes + lane; }

  // Whether a result is not shifted to the left and has such weights: that is the short way.
  template <class Weights>
  static bool takes(const Weights& weights, int32_t, int shift) {
    return shift <= 0 && !weights.has(-128);
  }

  static void interleave(int vectors, int width, const int8_t* const* rows, const int64_t* steps, int64_t count,
                         int8_t* to, int64_t to_step) {
    const int8_t* from = rows[0];
    const int64_t step = steps[0];
    for (int64_t j = 0; j < count; ++j, from += step, to += to_step) {
      if (width == 2 * kLanes) {
        vst1q_s8(to, vld1q_s8(from));
      } else {
        std::memset(to, 0, static_cast<size_t>(vectors * kLanes));
        std::memcpy(to, from, static_cast<size_t>(width));
      }
    }
  }

  static void line(bool quick, int vectors, int64_t count, const int8_t* x, int64_t x_step, int64_t columns,
                   int64_t groups, int64_t step, const int32_t* parameters, const int8_t* w, const Stored& stored,
                   int8_t* y, int64_t y_step, int width) {
    using Some = void (*)(const Window&, int64_t, const Stored&, int8_t*, int64_t, int);
    const Some some = !quick                     ? &some_of_line<Exact, false>
                      : stored.low < stored.zero ? &some_of_line<Short<true>, true>
                                                 : &some_of_line<Short<false>, true>;
    for (int v = 0; v < vectors; ++v) {
      const Window window = {x + v * kLanes, w + v * kLanes, x_step,           step,
                             columns,        groups,         vectors * kLanes, parameters + v * kParts * kLanes};
      some(window, count, stored, y + v * kLanes, y_step, std::min(width - v * kLanes, kLanes));
    }
  }

 private:
  static constexpr int kMost = 7;  // results side by side: their sums and products fit the registers

  // Where the window of the first result begins, and what it is multiplied with.
  struct Window {
    const int8_t *x, *w;
    int64_t x_step, step, columns, groups, vector_step;
    const int32_t* parts;
  };

  // The places of a window, column by column.
  class Places {
   public:
    Places(const Window& window, const int8_t* x)
        : at_(x), down_(window.vector_step), across_(window.step - window.groups * down_), groups_(window.groups) {}
    const int8_t* next() {
      const int8_t* here = at_;
      at_ += down_;
      if (++row_ == groups_) row_ = 0, at_ += across_;
      return here;
    }

   private:
    const int8_t* at_;
    const int64_t down_, across_, groups_;
    int64_t row_ = 0;
  };

  // The rounding of shifts goes up at halves. Where results are bounded by zero from below, that differs from away from
  // zero only in what becomes the bound; else one less for numbers below 0 that are shifted makes up for it.
  template <bool kSign>
  struct Short {
    int32x4_t multiplier[2], shift[2];

    explicit Short(const int32_t* parts)
        : multiplier{vld1q_s32(parts), vld1q_s32(parts + 4)}, shift{vld1q_s32(parts + 8), vld1q_s32(parts + 12)} {}
    int32x4_t operator()(int32x4_t sum, int half) const {
      int32x4_t high = vqrdmulhq_s32(sum, multiplier[half]);
      if (kSign) high = vsraq_n_s32(high, vandq_s32(high, shift[half]), 31);
      return vrshlq_s32(high, shift[half]);
    }
  };

  struct Exact {
    NeonScale scale[2];

    explicit Exact(const int32_t* parts)
        : scale{{vld1q_s32(parts), vld1q_s32(parts + 8)}, {vld1q_s32(parts + 4), vld1q_s32(parts + 12)}} {}
    int32x4_t operator()(int32x4_t sum, int half) const { return scale[half](sum); }
  };

  template <typename Rescale, bool kPairs>
  static void some_of_line(const Window& window, int64_t count, const Stored& stored, int8_t* y, int64_t y_step,
                           int width) {
    const int8_t* x = window.x;
    int64_t q = 0;
    for (; q + kMost <= count; q += kMost, x += kMost * window.x_step) {
      results<kMost, Rescale, kPairs>(window, x, stored, y + q * y_step, y_step, width);
    }
    if (q == count) return;
    with_number<kMost - 1>(static_cast<int>(count - q), [&](auto rest) {
      results<decltype(rest)::kValue, Rescale, kPairs>(window, x, stored, y + q * y_step, y_step, width);
    });
  }

  template <int Q, typename Rescale, bool kPairs>
  static void results(const Window& window, const int8_t* x, const Stored& stored, int8_t* y, int64_t y_step,
                      int width) {
    const int32x4_t start_low = vld1q_s32(window.parts), start_high = vld1q_s32(window.parts + 4);
    int32x4_t low[Q], high[Q];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) low[q] = start_low, high[q] = start_high;
    const auto add = [&](int q, int16x8_t products) {
      low[q] = vaddw_s16(low[q], vget_low_s16(products));
      high[q] = vaddw_high_s16(high[q], products);
    };
    const int8_t* w = window.w;
    const int64_t next = window.vector_step, x_step = window.x_step;
    int64_t left = window.columns * window.groups, apart[Q];
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      apart[q] = q * x_step;
      asm("" : "+r"(apart[q]));  // else each place adds them up again
    }
    Places places(window, x);
    for (; kPairs && left >= 2; left -= 2, w += 2 * next) {
      const int8_t *first = places.next(), *second = places.next();
      const int8x8_t w0 = vld1_s8(w), w1 = vld1_s8(w + next);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) {
        add(q, vmlal_s8(vmull_s8(vld1_s8(first + apart[q]), w0), vld1_s8(second + apart[q]), w1));
      }
    }
    for (; left > 0; --left, w += next) {
      const int8_t* from = places.next();
      const int8x8_t from_w = vld1_s8(w);
#pragma GCC unroll 8
      for (int q = 0; q < Q; ++q) add(q, vmull_s8(vld1_s8(from + apart[q]), from_w));
    }
    const Rescale rescale(window.parts + kLanes);
    const int16x8_t zero = vdupq_n_s16(static_cast<int16_t>(stored.zero));
    const int8x8_t least = vdup_n_s8(static_cast<int8_t>(stored.low)),
                   most = vdup_n_s8(static_cast<int8_t>(stored.high));
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const int16x8_t words = vqmovn_high_s32(vqmovn_s32(rescale(low[q], 0)), rescale(high[q], 1));
      const int8x8_t bytes = vmin_s8(vmax_s8(vqmovn_s16(vqaddq_s16(words, zero)), least), most);
      if (width == kLanes) {
        vst1_s8(y + q * y_step, bytes);
      } else {
        int8_t copy[kLanes];
        vst1_s8(copy, bytes);
        std::memcpy(y + q * y_step, copy, static_cast<size_t>(width));
      }
    }
  }
};

}  // namespace lite
