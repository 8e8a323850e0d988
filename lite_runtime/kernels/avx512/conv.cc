#include "kernels/gemm/conv.h"

#include "kernels/avx512/gemm_tile.h"
#include "kernels/gemm/conv_dw.h"
#include "kernels/kernels.h"
#include "kernels/vector/depthwise.h"

namespace lite {

KERNEL(conv2d, f32, avx512) { return ConvLayer<Avx512Tile>(call).run(); }
SCRATCH(conv2d, f32, avx512) { return ConvLayer<Avx512Tile>(call).scratch_bytes(); }
PREPARE(conv2d, f32, avx512) { return ConvLayer<Avx512Tile>(call).prepare(to); }

KERNEL(conv2d_add, f32, avx512) { return ConvLayer<Avx512Tile>(call).run(); }
SCRATCH(conv2d_add, f32, avx512) { return ConvLayer<Avx512Tile>(call).scratch_bytes(); }
PREPARE(conv2d_add, f32, avx512) { return ConvLayer<Avx512Tile>(call).prepare(to); }

KERNEL(conv2d_dx, f32, avx512) { return gemm_conv2d_dx<Avx512Tile>(call); }
SCRATCH(conv2d_dx, f32, avx512) { return gemm_conv2d_dx_scratch<Avx512Tile>(call); }

KERNEL(conv2d_dw, f32, avx512) { return gemm_conv2d_dw<Avx512Tile>(call); }
SCRATCH(conv2d_dw, f32, avx512) { return gemm_conv2d_dw_scratch<Avx512Tile>(call); }

KERNEL(depthwise_conv2d, f32, avx512) { return vector_depthwise_conv2d<Avx512>(call); }
KERNEL(depthwise_conv2d_dx, f32, avx512) { return vector_depthwise_conv2d_dx<Avx512>(call); }
KERNEL(depthwise_conv2d_dw, f32, avx512) { return vector_depthwise_conv2d_dw<Avx512>(call); }

}  // namespace lite
