#include "kernels/gemm/conv.h"

#include "kernels/gemm/conv_dw.h"
#include "kernels/kernels.h"
#include "kernels/neon/gemm_tile.h"
#include "kernels/vector/depthwise.h"

namespace lite {

KERNEL(conv2d, f32, neon) { return ConvLayer<NeonTile, NeonHalfTile>(call).run(); }
SCRATCH(conv2d, f32, neon) { return ConvLayer<NeonTile, NeonHalfTile>(call).scratch_bytes(); }
PREPARE(conv2d, f32, neon) { return ConvLayer<NeonTile, NeonHalfTile>(call).prepare(to); }

KERNEL(conv2d_add, f32, neon) { return ConvLayer<NeonTile, NeonHalfTile>(call).run(); }
SCRATCH(conv2d_add, f32, neon) { return ConvLayer<NeonTile, NeonHalfTile>(call).scratch_bytes(); }
PREPARE(conv2d_add, f32, neon) { return ConvLayer<NeonTile, NeonHalfTile>(call).prepare(to); }

KERNEL(conv2d_dx, f32, neon) { return gemm_conv2d_dx<NeonTile>(call); }
SCRATCH(conv2d_dx, f32, neon) { return gemm_conv2d_dx_scratch<NeonTile>(call); }

KERNEL(conv2d_dw, f32, neon) { return gemm_conv2d_dw<NeonTile>(call); }
SCRATCH(conv2d_dw, f32, neon) { return gemm_conv2d_dw_scratch<NeonTile>(call); }

KERNEL(depthwise_conv2d, f32, neon) { return vector_depthwise_conv2d<Neon>(call); }
KERNEL(depthwise_conv2d_dx, f32, neon) { return vector_depthwise_conv2d_dx<Neon>(call); }
KERNEL(depthwise_conv2d_dw, f32, neon) { return vector_depthwise_conv2d_dw<Neon>(call); }

}  // namespace lite
