#include "kernels/gemm/conv.h"

#include "kernels/avx2/gemm_tile.h"
#include "kernels/gemm/conv_dw.h"
#include "kernels/kernels.h"
#include "kernels/vector/depthwise.h"

namespace lite {

KERNEL(conv2d, f32, avx2) { return ConvLayer<Avx2Tile>(call).run(); }
SCRATCH(conv2d, f32, avx2) { return ConvLayer<Avx2Tile>(call).scratch_bytes(); }
PREPARE(conv2d, f32, avx2) { return ConvLayer<Avx2Tile>(call).prepare(to); }

KERNEL(conv2d_add, f32, avx2) { return ConvLayer<Avx2Tile>(call).run(); }
SCRATCH(conv2d_add, f32, avx2) { return ConvLayer<Avx2Tile>(call).scratch_bytes(); }
PREPARE(conv2d_add, f32, avx2) { return ConvLayer<Avx2Tile>(call).prepare(to); }

KERNEL(conv2d_dx, f32, avx2) { return gemm_conv2d_dx<Avx2Tile>(call); }
SCRATCH(conv2d_dx, f32, avx2) { return gemm_conv2d_dx_scratch<Avx2Tile>(call); }

KERNEL(conv2d_dw, f32, avx2) { return gemm_conv2d_dw<Avx2Tile>(call); }
SCRATCH(conv2d_dw, f32, avx2) { return gemm_conv2d_dw_scratch<Avx2Tile>(call); }

KERNEL(depthwise_conv2d, f32, avx2) { return vector_depthwise_conv2d<Avx2>(call); }
KERNEL(depthwise_conv2d_dx, f32, avx2) { return vector_depthwise_conv2d_dx<Avx2>(call); }
KERNEL(depthwise_conv2d_dw, f32, avx2) { return vector_depthwise_conv2d_dw<Avx2>(call); }

}  // namespace lite
