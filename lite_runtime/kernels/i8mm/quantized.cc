#include "kernels/int8/conv.h"
#include "kernels/int8/kernels.h"
#include "kernels/kernels.h"
#include "kernels/neon/layer.h"

namespace lite {
namespace {

// Layers on int8 with products of two rows of eight numbers and two results.
struct NeonMatrix : NeonLayer<NeonMatrix> {
  static constexpr int kTogether = 8;

  static constexpr int rows_of(int vectors) { return vectors > 2 ? 4 : 8; }

  static void multiply(bool, int rows, int vectors, const int8_t* const* x, const Pieces& pieces,
                       const int32_t* parameters, const int8_t* w, int32_t* sums) {
    const int8_t* all[8];  // short of pairs, the last row repeats
    for (int r = 0; r < 8; ++r) all[r] = x[r < rows ? r : rows - 1];
    alignas(16) int32_t found[8 * 2 * kLanes];
    int32_t* to = rows % 2 != 0 ? found : sums;
    using Run = void (*)(const int8_t* const*, const Pieces&, const int32_t*, const int8_t*, int32_t*);
    static constexpr Run kRuns[4][4] = {{tile<1, 1>, tile<2, 1>, tile<3, 1>, tile<4, 1>},
                                        {tile<1, 2>, tile<2, 2>, tile<3, 2>, tile<4, 2>},
                                        {tile<1, 3>, tile<2, 3>},
                                        {tile<1, 4>, tile<2, 4>}};
    kRuns[vectors - 1][(rows - 1) / 2](all, pieces, parameters, w, to);
    if (to != sums) std::memcpy(sums, found, sizeof(int32_t) * static_cast<size_t>(rows * vectors * kLanes));
  }

 private:
  // P pairs of rows, W vectors of four results.
  template <int P, int W>
  static void tile(const int8_t* const* x, const Pieces& pieces, const int32_t* parameters, const int8_t* w,
                   int32_t* sums) {
    int32x4_t acc[P][2 * W];  // two rows of two results
#pragma GCC unroll 4
    for (int v = 0; v < W; ++v) {
      const int32x4_t start = load(parameters + v * kParts * kLanes);
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        acc[p][2 * v] = vcombine_s32(vget_low_s32(start), vget_low_s32(start));
        acc[p][2 * v + 1] = vcombine_s32(vget_high_s32(start), vget_high_s32(start));
      }
    }
    for (int64_t i = 0; i < pieces.lines; ++i) {
      for (int64_t j = 0; j < pieces.places; ++j) {
        const int64_t first = i * pieces.line_step + j * pieces.place_step, end = first + pieces.length;
        for (int64_t d = first; d < end; d += kTogether, w += W * kTogether * kLanes) {
          int8x16_t rows[P];
#pragma GCC unroll 4
          for (int p = 0; p < P; ++p) rows[p] = vcombine_s8(vld1_s8(x[2 * p] + d), vld1_s8(x[2 * p + 1] + d));
#pragma GCC unroll 8
          for (int k = 0; k < 2 * W; ++k) {
            const int8x16_t two = vld1q_s8(w + 16 * k);
#pragma GCC unroll 4
            for (int p = 0; p < P; ++p) acc[p][k] = vmmlaq_s32(acc[p][k], rows[p], two);
          }
        }
      }
    }
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < W; ++v) {
        const int32x4_t a = acc[p][2 * v], b = acc[p][2 * v + 1];
        store(sums + (2 * p * W + v) * kLanes, vcombine_s32(vget_low_s32(a), vget_low_s32(b)));
        store(sums + ((2 * p + 1) * W + v) * kLanes, vcombine_s32(vget_high_s32(a), vget_high_s32(b)));
      }
    }
  }
};

}  // namespace

LITE_INT8_LAYER(quantized_conv2d, Conv<NeonMatrix>, i8mm)
LITE_INT8_LAYER(quantized_linear, Conv<NeonMatrix>, i8mm)

}  // namespace lite
