#include "kernels/kernels.h"
#include "kernels/wasm/fixed_point.h"
#include "kernels/wasm/quantized_layers.h"

namespace lite {
namespace {

// Sums of one position: channels 0 to 3 and 4 to 7 of a block.
struct Sums {
  v128_t a = wasm_i32x4_const_splat(0), b = wasm_i32x4_const_splat(0);

  // x: two neighbouring channels, again and again; w: two weights of each result.
  void add(v128_t x, v128_t wa, v128_t wb) {
    a = wasm_i32x4_add(a, wasm_i32x4_dot_i16x8(x, wa));
    b = wasm_i32x4_add(b, wasm_i32x4_dot_i16x8(x, wb));
  }
};

int32_t total(v128_t x) {
  const v128_t pairs = wasm_i32x4_add(x, wasm_i32x4_shuffle(x, x, 2, 3, 0, 1));
  return wasm_i32x4_extract_lane(pairs, 0) + wasm_i32x4_extract_lane(pairs, 1);
}

struct Wasm {
  static constexpr int kChannels = 8, kDepth = 2;

  class Finish {
   public:
    Finish(const int32_t* channels, const Stored& stored)
        : a_(Scale::of_channels(channels)), b_(Scale::of_channels(channels + 4)), bound_(stored) {}

    void operator()(const Sums& sums, int8_t* y, int width) const {
      const v128_t a = bound_(a_(sums.a)), b = bound_(b_(sums.b));
      if (width == kChannels) return store_int8(y, a, b);
      int8_t buffer[kChannels];
      store_int8(buffer, a, b);
      std::memcpy(y, buffer, static_cast<size_t>(width));
    }

   private:
    Scale a_, b_;
    Bound bound_;
  };

  template <typename T>
  static void finish_tile(const Tile<T>& tile, const Sums* sums, const Finish& finish, int width) {
    for (int i = 0; i < tile.count; ++i) finish(sums[i], tile.y[i], width);
  }

  static void widen(const int8_t* x, int64_t n, int zero, int16_t* y) {
    const v128_t zeros = wasm_i16x8_splat(static_cast<int16_t>(zero));
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) wasm_v128_store(y + i, wasm_i16x8_sub(wasm_i16x8_load8x8(x + i), zeros));
    for (; i < n; ++i) y[i] = static_cast<int16_t>(x[i] - zero);
  }

  // y[d / 2][k][d % 2], so that one dot product takes two channels of x for four results.
  static void pack(const int8_t* w, int64_t stride, int64_t results, int64_t depth, int16_t* y) {
    for (int64_t d = 0; d < depth; d += 2) {
      for (int64_t k = 0; k < kChannels; ++k) {
        const bool there = k < results;
        *y++ = there ? w[k * stride + d] : int16_t{0};
        *y++ = there && d + 1 < depth ? w[k * stride + d + 1] : int16_t{0};
      }
    }
  }

  static void multiply(const Layer& layer, const Steps& steps, int64_t depth, const Tile<int16_t>& tile,
                       const int16_t* w, const Finish& finish, int width) {
    Sums s0, s1, s2, s3;
    for (int64_t i = 0; i < layer.r; ++i) {
      for (int64_t j = 0; j < layer.s; ++j) {
        const int64_t at = i * steps.row + j * steps.column;
        const int16_t *x0 = tile.x[0] + at, *x1 = tile.x[1] + at, *x2 = tile.x[2] + at, *x3 = tile.x[3] + at;
        for (int32_t d = static_cast<int32_t>(depth); d > 0; d -= 2, w += 2 * kChannels) {
          const v128_t wa = wasm_v128_load(w), wb = wasm_v128_load(w + kChannels);
          s0.add(wasm_v128_load32_splat(x0), wa, wb);
          s1.add(wasm_v128_load32_splat(x1), wa, wb);
          s2.add(wasm_v128_load32_splat(x2), wa, wb);
          s3.add(wasm_v128_load32_splat(x3), wa, wb);
          x0 += 2, x1 += 2, x2 += 2, x3 += 2;
        }
      }
    }
    const Sums sums[4] = {s0, s1, s2, s3};
    finish_tile(tile, sums, finish, width);
  }

  // For each two places of the window, channels interleaved as `add_pair` interleaves x.
  static void pack_depthwise(const Layer& layer, const int8_t* w, int64_t channels, int16_t* y) {
    const int64_t places = layer.r * layer.s;
    for (int64_t place = 0; place < places; place += 2, w += 2 * layer.channels) {
      for (int64_t c = 0; c < kChannels; ++c) {
        const bool there = c < channels;
        *y++ = there ? w[c] : int16_t{0};
        *y++ = there && place + 1 < places ? w[layer.channels + c] : int16_t{0};
      }
    }
  }

  static void add_pair(Sums& sums, const int8_t* x0, const int8_t* x1, v128_t wa, v128_t wb) {
    const v128_t a = wasm_i16x8_load8x8(x0), b = wasm_i16x8_load8x8(x1);
    const v128_t low = wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    const v128_t high = wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    sums.a = wasm_i32x4_add(sums.a, wasm_i32x4_dot_i16x8(low, wa));
    sums.b = wasm_i32x4_add(sums.b, wasm_i32x4_dot_i16x8(high, wb));
  }

  static void multiply_depthwise(const Layer& layer, const Steps& steps, const Tile<int8_t>& tile, const int16_t* w,
                                 const Finish& finish, int width) {
    Sums s0, s1, s2, s3;
    const int64_t places = layer.r * layer.s, to_next_row = steps.row - (layer.s - 1) * steps.column;
    int64_t at = 0, column = 0;
    const auto advance = [&] {
      const bool row_ends = ++column == layer.s;
      at += row_ends ? to_next_row : steps.column;
      if (row_ends) column = 0;
    };
    for (int64_t place = 0; place < places; place += 2, w += 2 * kChannels) {
      const int64_t first = at;
      advance();
      const int64_t second = place + 1 < places ? at : first;  // the weight of a place too many is 0
      advance();
      const v128_t wa = wasm_v128_load(w), wb = wasm_v128_load(w + kChannels);
      add_pair(s0, tile.x[0] + first, tile.x[0] + second, wa, wb);
      add_pair(s1, tile.x[1] + first, tile.x[1] + second, wa, wb);
      add_pair(s2, tile.x[2] + first, tile.x[2] + second, wa, wb);
      add_pair(s3, tile.x[3] + first, tile.x[3] + second, wa, wb);
    }
    const Sums sums[4] = {s0, s1, s2, s3};
    finish_tile(tile, sums, finish, width);
  }

  static void dots(const int16_t* x, const int8_t* const* w, int64_t depth, int32_t* sums) {
    v128_t s0 = wasm_i32x4_const_splat(0), s1 = s0, s2 = s0, s3 = s0;
    int64_t d = 0;
    for (; d + 8 <= depth; d += 8) {
      const v128_t v = wasm_v128_load(x + d);
      s0 = wasm_i32x4_add(s0, wasm_i32x4_dot_i16x8(v, wasm_i16x8_load8x8(w[0] + d)));
      s1 = wasm_i32x4_add(s1, wasm_i32x4_dot_i16x8(v, wasm_i16x8_load8x8(w[1] + d)));
      s2 = wasm_i32x4_add(s2, wasm_i32x4_dot_i16x8(v, wasm_i16x8_load8x8(w[2] + d)));
      s3 = wasm_i32x4_add(s3, wasm_i32x4_dot_i16x8(v, wasm_i16x8_load8x8(w[3] + d)));
    }
    sums[0] = total(s0), sums[1] = total(s1), sums[2] = total(s2), sums[3] = total(s3);
    for (; d < depth; ++d) {
      for (int i = 0; i < 4; ++i) sums[i] = wrap32(int64_t{sums[i]} + x[d] * w[i][d]);
    }
  }
};

}  // namespace

SCRATCH(quantized_conv2d, i8, wasm) { return conv_layer<Wasm>(call).scratch().size(); }
KERNEL(quantized_conv2d, i8, wasm) { return run_layer(conv_layer<Wasm>(call), call); }

SCRATCH(quantized_depthwise_conv2d, i8, wasm) { return depthwise_layer<Wasm>(call).scratch().size(); }
KERNEL(quantized_depthwise_conv2d, i8, wasm) { return run_layer(depthwise_layer<Wasm>(call), call); }

SCRATCH(quantized_linear, i8, wasm) { return linear_layer<Wasm>(call).scratch().size(); }
KERNEL(quantized_linear, i8, wasm) { return run_layer(linear_layer<Wasm>(call), call); }

}  // namespace lite
