// Layers in plain NEON intrinsics, the measure that kernels for ARM are held against: one pixel at a time, four results
// of a convolution or eight channels of a depthwise one, taps in order, a test for the border at each.
//
//   arm_reference OP ISA SIZE CHANNELS RESULTS WINDOW PAD TIMES
//
// OP is conv2d, depthwise_conv2d, add, such an operator on int8, quantized_..., or half_conv2d, whose weights are in
// float16; an image has SIZE by SIZE pixels.

#include <arm_neon.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Sizes {
  int size, channels, results, window, pad;
};

// From four sums to bytes as the scheme of int8 does, bounded.
struct Stored {
  std::vector<int32_t> bias, multiplier, shift;

  explicit Stored(int results) : bias(results, 7), multiplier(results, 1 << 30), shift(results, -9) {}
  int8x8_t eight(int32x4_t low, int32x4_t high, int k) const {
    const int16x8_t words = vcombine_s16(vqmovn_s32(four(low, k)), vqmovn_s32(four(high, k + 4)));
    return vmin_s8(vmax_s8(vqmovn_s16(vqaddq_s16(words, vdupq_n_s16(-3))), vdup_n_s8(-128)), vdup_n_s8(127));
  }
  int32x4_t four(int32x4_t sum, int k) const {
    const int32x4_t by = vld1q_s32(&shift[k]), left = vmaxq_s32(by, vdupq_n_s32(0)), right = vsubq_s32(by, left);
    sum = vaddq_s32(sum, vld1q_s32(&bias[k]));
    const int32x4_t high = vqrdmulhq_s32(vshlq_s32(sum, left), vld1q_s32(&multiplier[k]));
    return vrshlq_s32(vqaddq_s32(high, vshrq_n_s32(vandq_s32(high, right), 31)), right);
  }
};

// The number of a pixel of x, below 0 where it is beyond the image.
int pixel_at(const Sizes& s, int row, int column) {
  return row < 0 || row >= s.size || column < 0 || column >= s.size ? -1 : row * s.size + column;
}

template <typename Pixel>
void for_pixels(const Sizes& s, const Pixel& pixel) {
  for (int p = 0; p < s.size; ++p) {
    for (int q = 0; q < s.size; ++q) pixel(p, q, p * s.size + q);
  }
}

void conv2d(const Sizes& s, const float* x, const float* w, float* y) {
  const int depth = s.window * s.window * s.channels;
  for_pixels(s, [&](int p, int q, int at) {
    for (int k = 0; k < s.results; k += 4) {
      float32x4_t sum[4] = {};
      for (int place = 0; place < s.window * s.window; ++place) {
        const int from = pixel_at(s, p + place / s.window - s.pad, q + place % s.window - s.pad);
        if (from < 0) continue;
        const float *px = x + from * s.channels, *pw = w + k * depth + place * s.channels;
        for (int c = 0; c < s.channels; c += 4) {
          const float32x4_t v = vld1q_f32(px + c);
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) sum[r] = vfmaq_f32(sum[r], v, vld1q_f32(pw + r * depth + c));
        }
      }
      vst1q_f32(y + at * s.results + k, vpaddq_f32(vpaddq_f32(sum[0], sum[1]), vpaddq_f32(sum[2], sum[3])));
    }
  });
}

// Weights are widened to float32.
void half_conv2d(const Sizes& s, const float* x, const float16_t* w, float* y) {
  const int depth = s.window * s.window * s.channels;
  for_pixels(s, [&](int p, int q, int at) {
    for (int k = 0; k < s.results; k += 4) {
      float32x4_t sum[4] = {};
      for (int place = 0; place < s.window * s.window; ++place) {
        const int from = pixel_at(s, p + place / s.window - s.pad, q + place % s.window - s.pad);
        if (from < 0) continue;
        const float* px = x + from * s.channels;
        const float16_t* pw = w + k * depth + place * s.channels;
        for (int c = 0; c < s.channels; c += 4) {
          const float32x4_t v = vld1q_f32(px + c);
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) sum[r] = vfmaq_f32(sum[r], v, vcvt_f32_f16(vld1_f16(pw + r * depth + c)));
        }
      }
      vst1q_f32(y + at * s.results + k, vpaddq_f32(vpaddq_f32(sum[0], sum[1]), vpaddq_f32(sum[2], sum[3])));
    }
  });
}

// x is rounded to float16, in which all products of a result are added up.
void half_conv2d_fp16(const Sizes& s, const float* x, const float16_t* w, float* y) {
  const int depth = s.window * s.window * s.channels;
  for_pixels(s, [&](int p, int q, int at) {
    for (int k = 0; k < s.results; k += 4) {
      float16x8_t sum[4] = {};
      for (int place = 0; place < s.window * s.window; ++place) {
        const int from = pixel_at(s, p + place / s.window - s.pad, q + place % s.window - s.pad);
        if (from < 0) continue;
        const float* px = x + from * s.channels;
        const float16_t* pw = w + k * depth + place * s.channels;
        for (int c = 0; c < s.channels; c += 8) {
          const float16x8_t v = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(px + c)), vld1q_f32(px + c + 4));
#pragma GCC unroll 4
          for (int r = 0; r < 4; ++r) sum[r] = vfmaq_f16(sum[r], v, vld1q_f16(pw + r * depth + c));
        }
      }
      const float16x8_t two = vpaddq_f16(vpaddq_f16(sum[0], sum[1]), vpaddq_f16(sum[2], sum[3]));
      vst1q_f32(y + at * s.results + k, vcvt_f32_f16(vget_low_f16(vpaddq_f16(two, two))));
    }
  });
}

void depthwise_conv2d(const Sizes& s, const float* x, const float* w, float* y) {
  for_pixels(s, [&](int p, int q, int at) {
    for (int c = 0; c < s.channels; c += 4) {
      float32x4_t sum = {};
      for (int i = 0; i < s.window; ++i) {
        for (int j = 0; j < s.window; ++j) {
          const int from = pixel_at(s, p + i - s.pad, q + j - s.pad);
          if (from < 0) continue;
          const float* weights = w + (i * s.window + j) * s.channels + c;
          sum = vfmaq_f32(sum, vld1q_f32(x + from * s.channels + c), vld1q_f32(weights));
        }
      }
      vst1q_f32(y + at * s.channels + c, sum);
    }
  });
}

int32x4_t dot_plain(int32x4_t sum, int8x16_t x, int8x16_t w) {
  sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(x), vget_low_s8(w)));
  return vpadalq_s16(sum, vmull_high_s8(x, w));
}

int32x4_t dot_four(int32x4_t sum, int8x16_t x, int8x16_t w) { return vdotq_s32(sum, x, w); }

// dot(sum, x, w) adds products of 16 numbers.
template <int32x4_t (*dot)(int32x4_t, int8x16_t, int8x16_t)>
void quantized_conv2d(const Sizes& s, const int8_t* x, const int8_t* w, int8_t* y, const Stored& stored) {
  const int depth = s.window * s.window * s.channels;
  for_pixels(s, [&](int p, int q, int at) {
    for (int k = 0; k < s.results; k += 8) {
      int32x4_t found[2];
      for (int half = 0; half < 2; ++half) {
        int32x4_t sum[4] = {};
        for (int place = 0; place < s.window * s.window; ++place) {
          const int from = pixel_at(s, p + place / s.window - s.pad, q + place % s.window - s.pad);
          if (from < 0) continue;
          const int8_t *px = x + from * s.channels, *pw = w + (k + 4 * half) * depth + place * s.channels;
          for (int c = 0; c < s.channels; c += 16) {
            const int8x16_t v = vld1q_s8(px + c);
#pragma GCC unroll 4
            for (int r = 0; r < 4; ++r) sum[r] = dot(sum[r], v, vld1q_s8(pw + r * depth + c));
          }
        }
        found[half] = vpaddq_s32(vpaddq_s32(sum[0], sum[1]), vpaddq_s32(sum[2], sum[3]));
      }
      vst1_s8(y + at * s.results + k, stored.eight(found[0], found[1], k));
    }
  });
}

// Two results and two pixels at a time.
void quantized_conv2d_i8mm(const Sizes& s, const int8_t* x, const int8_t* w, int8_t* y, const Stored& stored) {
  const int depth = s.window * s.window * s.channels;
  for (int p = 0; p < s.size; ++p) {
    for (int q = 0; q < s.size; q += 2) {
      for (int k = 0; k < s.results; k += 8) {
        int32x4_t sum[4] = {};
        for (int i = 0; i < s.window; ++i) {
          for (int j = 0; j < s.window; ++j) {
            const int row = p + i - s.pad, column = q + j - s.pad;
            if (row < 0 || row >= s.size || column < 0 || column + 1 >= s.size) continue;
            const int8_t* px = x + (row * s.size + column) * s.channels;
            const int8_t* pw = w + k * depth + (i * s.window + j) * s.channels;
            for (int c = 0; c < s.channels; c += 8) {
              const int8x16_t two = vcombine_s8(vld1_s8(px + c), vld1_s8(px + s.channels + c));
#pragma GCC unroll 4
              for (int r = 0; r < 4; ++r) {
                const int8_t* rows = pw + 2 * r * depth + c;
                sum[r] = vmmlaq_s32(sum[r], two, vcombine_s8(vld1_s8(rows), vld1_s8(rows + depth)));
              }
            }
          }
        }
        int8_t* to = y + (p * s.size + q) * s.results + k;
        for (int half = 0; half < 2; ++half) {
          const auto part = [half](int32x4_t v) { return half == 0 ? vget_low_s32(v) : vget_high_s32(v); };
          vst1_s8(to + half * s.results,
                  stored.eight(vcombine_s32(part(sum[0]), part(sum[1])), vcombine_s32(part(sum[2]), part(sum[3])), k));
        }
      }
    }
  }
}

void quantized_depthwise_conv2d(const Sizes& s, const int8_t* x, const int8_t* w, int8_t* y, const Stored& stored) {
  for_pixels(s, [&](int p, int q, int at) {
    for (int c = 0; c < s.channels; c += 8) {
      int32x4_t low = {}, high = {};
      for (int i = 0; i < s.window; ++i) {
        for (int j = 0; j < s.window; ++j) {
          const int from = pixel_at(s, p + i - s.pad, q + j - s.pad);
          if (from < 0) continue;
          const int16x8_t v = vmovl_s8(vld1_s8(x + from * s.channels + c));
          const int16x8_t by = vmovl_s8(vld1_s8(w + (i * s.window + j) * s.channels + c));
          low = vmlal_s16(low, vget_low_s16(v), vget_low_s16(by));
          high = vmlal_high_s16(high, v, by);
        }
      }
      vst1_s8(y + at * s.channels + c, stored.eight(low, high, c));
    }
  });
}

void add(int n, const float* a, const float* b, float* y) {
  for (int i = 0; i < n; i += 4) vst1q_f32(y + i, vaddq_f32(vld1q_f32(a + i), vld1q_f32(b + i)));
}

void quantized_add(int n, const int8_t* a, const int8_t* b, int8_t* y, const Stored& stored) {
  for (int i = 0; i < n; i += 8) {
    const auto fine = [&](const int8_t* x, int half) {
      const int16x8_t words = vsubq_s16(vmovl_s8(vld1_s8(x + i)), vdupq_n_s16(5));
      return stored.four(vshlq_n_s32(vmovl_s16(half == 0 ? vget_low_s16(words) : vget_high_s16(words)), 20), 0);
    };
    vst1_s8(y + i, stored.eight(vaddq_s32(fine(a, 0), fine(b, 0)), vaddq_s32(fine(a, 1), fine(b, 1)), 0));
  }
}

bool run(const std::string& op, const std::string& isa, const Sizes& s, int times) {
  const int pixels = s.size * s.size, taps = s.window * s.window;
  const size_t most = static_cast<size_t>(pixels + taps * s.results + 64) * (s.channels + s.results);
  const std::vector<float> fx(most, 1.0f), fw(most, 0.5f);
  const std::vector<float16_t> hw(most, float16_t(0.5f));
  const std::vector<int8_t> x(most, 3), w(most, 2);
  std::vector<float> fy(most);
  std::vector<int8_t> y(most);
  const Stored stored(s.channels + s.results + 8);
  for (int i = 0; i < times; ++i) {
    if (op == "half_conv2d" && isa == "neon") {
      half_conv2d(s, fx.data(), hw.data(), fy.data());
    } else if (op == "half_conv2d" && isa == "fp16") {
      half_conv2d_fp16(s, fx.data(), hw.data(), fy.data());
    } else if (op == "conv2d") {
      conv2d(s, fx.data(), fw.data(), fy.data());
    } else if (op == "depthwise_conv2d") {
      depthwise_conv2d(s, fx.data(), fw.data(), fy.data());
    } else if (op == "add") {
      add(pixels * s.channels, fx.data(), fw.data(), fy.data());
    } else if (op == "quantized_add" && isa == "neon") {
      quantized_add(pixels * s.channels, x.data(), w.data(), y.data(), stored);
    } else if (op == "quantized_depthwise_conv2d" && isa == "neon") {
      quantized_depthwise_conv2d(s, x.data(), w.data(), y.data(), stored);
    } else if (op == "quantized_conv2d" && isa == "neon") {
      quantized_conv2d<dot_plain>(s, x.data(), w.data(), y.data(), stored);
    } else if (op == "quantized_conv2d" && isa == "dotprod") {
      quantized_conv2d<dot_four>(s, x.data(), w.data(), y.data(), stored);
    } else if (op == "quantized_conv2d" && isa == "i8mm") {
      quantized_conv2d_i8mm(s, x.data(), w.data(), y.data(), stored);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) return std::fprintf(stderr, "usage: OP ISA SIZE CHANNELS RESULTS WINDOW PAD TIMES\n"), 2;
  int numbers[6];
  for (int i = 0; i < 6; ++i) numbers[i] = std::atoi(argv[3 + i]);
  return run(argv[1], argv[2], {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]}, numbers[5]) ? 0 : 1;
}
