#include "kernels/gemm/attention.h"

#include "kernels/kernels.h"
#include "kernels/wasm/gemm_tile.h"

namespace lite {

KERNEL(attention, f32, wasm) { return gemm_attention<WasmTile>(call); }
SCRATCH(attention, f32, wasm) { return gemm_attention_scratch<WasmTile>(call); }

}  // namespace lite
