#include "kernels/gemm/recurrent.h"

#include "kernels/avx2/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(lstm, f32, avx2) { return gemm_lstm<Avx2Tile>(call); }
SCRATCH(lstm, f32, avx2) { return recurrent_scratch<Avx2Tile>(call.context, call.in[0].dim(0), 4, call.in[1].dim(1)); }
PREPARE(lstm, f32, avx2) { return recurrent_prepare<Avx2Tile>(call.in[1], to); }
KERNEL(lstm_dx, f32, avx2) { return gemm_lstm_dx<Avx2Tile>(call); }
SCRATCH(lstm_dx, f32, avx2) {
  return recurrent_dx_scratch<Avx2Tile>(call.context, call.in[0].dim(0), 4, call.in[2].dim(1), 0);
}
KERNEL(gru, f32, avx2) { return gemm_gru<Avx2Tile>(call); }
SCRATCH(gru, f32, avx2) { return recurrent_scratch<Avx2Tile>(call.context, call.in[0].dim(0), 3, call.in[1].dim(1)); }
PREPARE(gru, f32, avx2) { return recurrent_prepare<Avx2Tile>(call.in[1], to); }
KERNEL(gru_dx, f32, avx2) { return gemm_gru_dx<Avx2Tile>(call); }
SCRATCH(gru_dx, f32, avx2) {
  return recurrent_dx_scratch<Avx2Tile>(call.context, call.in[0].dim(0), 3, call.in[2].dim(1), 2);
}

}  // namespace lite
