#include "kernels/gemm/conv.h"

#include "kernels/gemm/conv_dw.h"
#include "kernels/kernels.h"
#include "kernels/vector/depthwise.h"
#include "kernels/wasm/gemm_tile.h"

namespace lite {

KERNEL(conv2d, f32, wasm) { return ConvLayer<WasmTile>(call).run(); }
SCRATCH(conv2d, f32, wasm) { return ConvLayer<WasmTile>(call).scratch_bytes(); }
PREPARE(conv2d, f32, wasm) { return ConvLayer<WasmTile>(call).prepare(to); }

KERNEL(conv2d_add, f32, wasm) { return ConvLayer<WasmTile>(call).run(); }
SCRATCH(conv2d_add, f32, wasm) { return ConvLayer<WasmTile>(call).scratch_bytes(); }
PREPARE(conv2d_add, f32, wasm) { return ConvLayer<WasmTile>(call).prepare(to); }

KERNEL(conv2d_dx, f32, wasm) { return gemm_conv2d_dx<WasmTile>(call); }
SCRATCH(conv2d_dx, f32, wasm) { return gemm_conv2d_dx_scratch<WasmTile>(call); }

KERNEL(conv2d_dw, f32, wasm) { return gemm_conv2d_dw<WasmTile>(call); }
SCRATCH(conv2d_dw, f32, wasm) { return gemm_conv2d_dw_scratch<WasmTile>(call); }

KERNEL(depthwise_conv2d, f32, wasm) { return vector_depthwise_conv2d<Wasm>(call); }
KERNEL(depthwise_conv2d_dx, f32, wasm) { return vector_depthwise_conv2d_dx<Wasm>(call); }
KERNEL(depthwise_conv2d_dw, f32, wasm) { return vector_depthwise_conv2d_dw<Wasm>(call); }

}  // namespace lite
