#include "kernels/avx2/int_vector.h"
#include "kernels/int8/conv.h"
#include "kernels/int8/finish.h"
#include "kernels/int8/kernels.h"
#include "kernels/int8/tile.h"
#include "kernels/kernels.h"

namespace lite {
namespace {

// Layers on int8 with AVX-VNNI, which multiplies numbers without sign with numbers that have one: x is moved by 128.
// Depthwise ones are no faster than with AVX2 alone.
struct Vnni256 : Avx2Int, DotKernels<Vnni256> {
  using X = uint8_t;
  using Weight = int8_t;
  using Finish = lite::Finish<Avx2Int>;
  static constexpr int kParts = 1 + kQuickParts, kTogether = 4, kOffset = 128, kMostVectors = 2;

  static constexpr int rows_of(int vectors) { return vectors == 2 ? 6 : 8; }

  static void convert(const int8_t* x, int64_t n, uint8_t* y) {
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) store(y + i, _mm256_xor_si256(load(x + i), _mm256_set1_epi8(-128)));
    for (; i < n; ++i) y[i] = static_cast<uint8_t>(x[i] + 128);
  }

  static V broadcast(const uint8_t* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
  }
  static V dot(V sum, V x, V w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
};

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<Vnni256>, avxvnni)
LITE_INT8_LAYER(quantized_linear, Conv<Vnni256>, avxvnni)

}  // namespace lite
