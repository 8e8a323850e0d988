#include "kernels/gemm/linalg.h"

#include "kernels/kernels.h"
#include "kernels/wasm/gemm_tile.h"

namespace lite {

KERNEL(matmul, f32, wasm) { return gemm_matmul<WasmTile>(call); }
SCRATCH(matmul, f32, wasm) { return gemm_matmul_scratch<WasmTile>(call); }

KERNEL(linear, f32, wasm) { return gemm_linear<WasmTile>(call); }
SCRATCH(linear, f32, wasm) { return gemm_linear_scratch<WasmTile>(call); }
PREPARE(linear, f32, wasm) { return gemm_linear_prepare<WasmTile>(call, to); }

}  // namespace lite
