#include "kernels/gemm/recurrent.h"

#include "kernels/kernels.h"
#include "kernels/wasm/gemm_tile.h"

namespace lite {

KERNEL(lstm, f32, wasm) { return gemm_lstm<WasmTile>(call); }
SCRATCH(lstm, f32, wasm) { return recurrent_scratch<WasmTile>(call.context, call.in[0].dim(0), 4, call.in[1].dim(1)); }
PREPARE(lstm, f32, wasm) { return recurrent_prepare<WasmTile>(call.in[1], to); }
KERNEL(lstm_dx, f32, wasm) { return gemm_lstm_dx<WasmTile>(call); }
SCRATCH(lstm_dx, f32, wasm) {
  return recurrent_dx_scratch<WasmTile>(call.context, call.in[0].dim(0), 4, call.in[2].dim(1), 0);
}
KERNEL(gru, f32, wasm) { return gemm_gru<WasmTile>(call); }
SCRATCH(gru, f32, wasm) { return recurrent_scratch<WasmTile>(call.context, call.in[0].dim(0), 3, call.in[1].dim(1)); }
PREPARE(gru, f32, wasm) { return recurrent_prepare<WasmTile>(call.in[1], to); }
KERNEL(gru_dx, f32, wasm) { return gemm_gru_dx<WasmTile>(call); }
SCRATCH(gru_dx, f32, wasm) {
  return recurrent_dx_scratch<WasmTile>(call.context, call.in[0].dim(0), 3, call.in[2].dim(1), 2);
}

}  // namespace lite
