#include "kernels/avx2/fixed_point.h"
#include "kernels/kernels.h"
#include "kernels/quantized_layers.h"

namespace lite {
namespace {

// Sums of one position: channels 0 to 7 and 8 to 15 of a block.
struct Sums {
  __m256i a = _mm256_setzero_si256(), b = _mm256_setzero_si256();

  void add(__m256i x, __m256i wa, __m256i wb) {
    a = _mm256_add_epi32(a, _mm256_madd_epi16(x, wa));
    b = _mm256_add_epi32(b, _mm256_madd_epi16(x, wb));
  }
};

__m256i pair_at(const int16_t* x) {
  int32_t pair;
  std::memcpy(&pair, x, 4);
  return _mm256_set1_epi32(pair);
}

struct Avx2 {
  static constexpr int kChannels = 16, kDepth = 2;

  class Finish {
   public:
    Finish(const int32_t* channels, const Stored& stored)
        : a_(Scale::of_channels(channels)), b_(Scale::of_channels(channels + 8)), bound_(stored) {}

    void operator()(const Sums& sums, int8_t* y, int width) const {
      const __m128i bytes = to_int8(bound_(a_(sums.a)), bound_(b_(sums.b)));
      if (width == kChannels) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes);
        return;
      }
      alignas(16) int8_t buffer[kChannels];
      _mm_store_si128(reinterpret_cast<__m128i*>(buffer), bytes);
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
    const __m256i zeros = _mm256_set1_epi16(static_cast<int16_t>(zero));
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, _mm256_sub_epi16(load_wide(x + i), zeros));
    for (; i < n; ++i) y[i] = static_cast<int16_t>(x[i] - zero);
  }

  // y[d / 2][k][d % 2], so that one multiply-add takes two channels of x for eight results.
  static void pack(const int8_t* w, int64_t stride, int64_t results, int64_t depth, int16_t* y) {
    int64_t d = 0;
    if (results == kChannels) {
      for (; d + 16 <= depth; d += 16) {
        pack_square(w + d, stride, y + d * kChannels);
        pack_square(w + d + 8 * stride, stride, y + d * kChannels + 16);
      }
    }
    for (; d < depth; d += 2) {
      for (int64_t k = 0; k < kChannels; ++k) {
        const bool there = k < results;
        *(y + d * kChannels + 2 * k) = there ? w[k * stride + d] : int16_t{0};
        *(y + d * kChannels + 2 * k + 1) = there && d + 1 < depth ? w[k * stride + d + 1] : int16_t{0};
      }
    }
  }

  // Eight results by 16 channels: a transposition of 8 by 8 pairs, written 32 numbers apart.
  static void pack_square(const int8_t* w, int64_t stride, int16_t* y) {
    __m256i r[8], t[8];
    for (int i = 0; i < 8; ++i) r[i] = load_wide(w + i * stride);
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
      r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
      r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
      r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
      store(y + i * 2 * kChannels, _mm256_permute2x128_si256(r[i], r[i + 4], 0x20));
      store(y + (i + 4) * 2 * kChannels, _mm256_permute2x128_si256(r[i], r[i + 4], 0x31));
    }
  }

  static void multiply(const OldLayer& layer, const Steps& steps, int64_t depth, const Tile<int16_t>& tile,
                       const int16_t* w, const Finish& finish, int width) {
    Sums s0, s1, s2, s3;
    for (int64_t i = 0; i < layer.r; ++i) {
      for (int64_t j = 0; j < layer.s; ++j) {
        const int64_t at = i * steps.row + j * steps.column;
        const int16_t *x0 = tile.x[0] + at, *x1 = tile.x[1] + at, *x2 = tile.x[2] + at, *x3 = tile.x[3] + at;
        for (int64_t d = 0; d < depth; d += 2, w += 2 * kChannels) {
          const __m256i wa = load(w), wb = load(w + kChannels);
          s0.add(pair_at(x0 + d), wa, wb);
          s1.add(pair_at(x1 + d), wa, wb);
          s2.add(pair_at(x2 + d), wa, wb);
          s3.add(pair_at(x3 + d), wa, wb);
        }
      }
    }
    const Sums sums[4] = {s0, s1, s2, s3};
    finish_tile(tile, sums, finish, width);
  }

  // For each two places of the window, channels interleaved as `add_pair` interleaves x.
  static void pack_depthwise(const OldLayer& layer, const int8_t* w, int64_t channels, int16_t* y) {
    const int64_t places = layer.r * layer.s;
    for (int64_t place = 0; place < places; place += 2, y += 2 * kChannels) {
      int8_t two[2][kChannels] = {};
      for (int64_t i = 0; i < 2 && place + i < places; ++i) {
        std::memcpy(two[i], w + (place + i) * layer.channels, static_cast<size_t>(channels));
      }
      const __m256i w0 = load_wide(two[0]), w1 = load_wide(two[1]);
      store(y, _mm256_unpacklo_epi16(w0, w1));
      store(y + kChannels, _mm256_unpackhi_epi16(w0, w1));
    }
  }

  static void add_pair(Sums& sums, const int8_t* x0, const int8_t* x1, __m256i wa, __m256i wb) {
    const __m256i a = load_wide(x0), b = load_wide(x1);
    sums.a = _mm256_add_epi32(sums.a, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), wa));
    sums.b = _mm256_add_epi32(sums.b, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), wb));
  }

  static void multiply_depthwise(const OldLayer& layer, const Steps& steps, const Tile<int8_t>& tile, const int16_t* w,
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
      const __m256i wa = load(w), wb = load(w + kChannels);
      add_pair(s0, tile.x[0] + first, tile.x[0] + second, wa, wb);
      add_pair(s1, tile.x[1] + first, tile.x[1] + second, wa, wb);
      add_pair(s2, tile.x[2] + first, tile.x[2] + second, wa, wb);
      add_pair(s3, tile.x[3] + first, tile.x[3] + second, wa, wb);
    }
    const Sums sums[4] = {in_order(s0), in_order(s1), in_order(s2), in_order(s3)};
    finish_tile(tile, sums, finish, width);
  }

  // Interleaving leaves channels 0-3, 8-11 in one half and 4-7, 12-15 in the other.
  static Sums in_order(const Sums& s) {
    Sums out;
    out.a = _mm256_permute2x128_si256(s.a, s.b, 0x20);
    out.b = _mm256_permute2x128_si256(s.a, s.b, 0x31);
    return out;
  }

  static void dots(const int16_t* x, const int8_t* const* w, int64_t depth, int32_t* sums) {
    __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
    int64_t d = 0;
    for (; d + 16 <= depth; d += 16) {
      const __m256i v = load(x + d);
      s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(v, load_wide(w[0] + d)));
      s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(v, load_wide(w[1] + d)));
      s2 = _mm256_add_epi32(s2, _mm256_madd_epi16(v, load_wide(w[2] + d)));
      s3 = _mm256_add_epi32(s3, _mm256_madd_epi16(v, load_wide(w[3] + d)));
    }
    const __m256i halves = _mm256_hadd_epi32(_mm256_hadd_epi32(s0, s1), _mm256_hadd_epi32(s2, s3));
    const __m128i total = _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(sums), total);
    for (; d < depth; ++d) {
      for (int i = 0; i < 4; ++i) sums[i] = wrap32(int64_t{sums[i]} + x[d] * w[i][d]);
    }
  }
};

}  // namespace

SCRATCH(quantized_conv2d, i8, avx2) { return conv_layer<Avx2>(call).scratch().size(); }
KERNEL(quantized_conv2d, i8, avx2) { return run_layer(conv_layer<Avx2>(call), call); }

SCRATCH(quantized_depthwise_conv2d, i8, avx2) { return depthwise_layer<Avx2>(call).scratch().size(); }
KERNEL(quantized_depthwise_conv2d, i8, avx2) { return run_layer(depthwise_layer<Avx2>(call), call); }

SCRATCH(quantized_linear, i8, avx2) { return linear_layer<Avx2>(call).scratch().size(); }
KERNEL(quantized_linear, i8, avx2) { return run_layer(linear_layer<Avx2>(call), call); }

}  // namespace lite
