#include "kernels/avx2/columns.h"
#include "kernels/avx2/int_vector.h"
#include "kernels/int16/layers.h"
#include "kernels/int8/conv.h"
#include "kernels/int8/depthwise.h"
#include "kernels/int8/finish.h"
#include "kernels/int8/kernels.h"
#include "kernels/int8/tile.h"
#include "kernels/kernels.h"

namespace lite {
namespace {

// Layers on int8 with AVX2, which multiplies pairs of 16-bit numbers and adds them up.
struct Avx2Layer : Avx2Int, DotKernels<Avx2Layer> {
  using X = int16_t;
  using Weight = int16_t;
  using Finish = lite::Finish<Avx2Int>;
  static constexpr int kParts = 1 + kQuickParts, kTogether = 2, kOffset = 0, kMostVectors = 2;

  static constexpr int rows_of(int vectors) { return vectors == 2 ? 6 : 8; }

  // 16 numbers from int8 to int16.
  static V widen(const int8_t* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void convert(const int8_t* x, int64_t n, int16_t* y) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) store(y + i, widen(x + i));
    for (; i < n; ++i) y[i] = x[i];
  }

  static V broadcast(const int16_t* x) {
    int32_t two;
    std::memcpy(&two, x, sizeof two);
    return _mm256_set1_epi32(two);
  }
  static V dot(V sum, V x, V w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)); }
};

// Layers on int16.
struct Avx2Shorts {
  using V = __m256i;
  static constexpr int64_t kShorts = 16;

  static V load(const int16_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
  static V dot(V sum, const int16_t* x, const int16_t* w) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(load(x), load(w)));
  }
  static int64_t total(V sum) {
    int32_t lanes[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sum);
    int64_t all = 0;
    for (int32_t lane : lanes) all += lane;
    return all;
  }
  static void add_products(int32_t* sums, const int16_t* x, const int16_t* w) {
    for (int half = 0; half < 16; half += 8) {
      const __m256i product = _mm256_mullo_epi32(widen(x + half), widen(w + half));
      __m256i* to = reinterpret_cast<__m256i*>(sums + half);
      _mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), product));
    }
  }

 private:
  static V widen(const int16_t* from) {
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
};

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<Avx2Layer>, avx2)
LITE_INT8_LAYER(quantized_depthwise_conv2d, Depthwise<Avx2Columns>, avx2)
LITE_INT8_LAYER(quantized_linear, Conv<Avx2Layer>, avx2)

LITE_INT16_LAYER(quantized_conv2d, false, Avx2Shorts, avx2)
LITE_INT16_LAYER(quantized_depthwise_conv2d, true, Avx2Shorts, avx2)
LITE_INT16_LAYER(quantized_linear, false, Avx2Shorts, avx2)

}  // namespace lite
