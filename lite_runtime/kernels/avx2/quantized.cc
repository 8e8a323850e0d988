#include "kernels/avx2/columns.h"
#include "kernels/avx2/int_vector.h"
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

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<Avx2Layer>, avx2)
LITE_INT8_LAYER(quantized_depthwise_conv2d, Depthwise<Avx2Columns>, avx2)
LITE_INT8_LAYER(quantized_linear, Conv<Avx2Layer>, avx2)

}  // namespace lite
