#include "kernels/gemm/linalg.h"

#include "kernels/kernels.h"
#include "kernels/wasm/gemm_tile.h"

namespace lite {

KERNEL(matmul, f32, wasm) { return gemm_matmul<WasmTile>(call); }
SCRATCH(matmul, f32, wasm) { return gemm_matmul_scratch<WasmTile>(call); }

KERNEL(linear, f32, wasm) { return LinearLayer<WasmTile>(call).run(); }
SCRATCH(linear, f32, wasm) { return LinearLayer<WasmTile>(call).scratch_bytes(); }
PREPARE(linear, f32, wasm) { return LinearLayer<WasmTile>(call).prepare(to); }

KERNEL(linear_add, f32, wasm) { return LinearLayer<WasmTile>(call).run(); }
SCRATCH(linear_add, f32, wasm) { return LinearLayer<WasmTile>(call).scratch_bytes(); }
PREPARE(linear_add, f32, wasm) { return LinearLayer<WasmTile>(call).prepare(to); }

}  // namespace lite
