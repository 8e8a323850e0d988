#include "kernels/gemm/compressed.h"

#include "kernels/kernels.h"
#include "kernels/wasm/gemm_tile.h"
#include "kernels/wasm/int_vector.h"

namespace lite {

KERNEL(compressed_linear, f32, wasm) { return compressed_linear<WasmTile, WasmInt>(call); }
SCRATCH(compressed_linear, f32, wasm) { return compressed_linear_scratch<WasmTile>(call); }

KERNEL(compressed_gather, any, wasm) { return compressed_gather<WasmInt>(call); }

KERNEL(decompress, any, wasm) { return decompress<WasmInt>(call); }

}  // namespace lite
