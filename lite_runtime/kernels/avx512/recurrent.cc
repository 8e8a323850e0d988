#include "kernels/gemm/recurrent.h"

#include "kernels/avx512/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(lstm, f32, avx512) { return gemm_lstm<Avx512Tile>(call); }
SCRATCH(lstm, f32, avx512) {
  return recurrent_scratch<Avx512Tile>(call.context, call.in[0].dim(0), 4, call.in[1].dim(1));
}
PREPARE(lstm, f32, avx512) { return recurrent_prepare<Avx512Tile>(call.in[1], to); }
KERNEL(lstm_dx, f32, avx512) { return gemm_lstm_dx<Avx512Tile>(call); }
SCRATCH(lstm_dx, f32, avx512) {
  return recurrent_dx_scratch<Avx512Tile>(call.context, call.in[0].dim(0), 4, call.in[2].dim(1), 0);
}
KERNEL(gru, f32, avx512) { return gemm_gru<Avx512Tile>(call); }
SCRATCH(gru, f32, avx512) {
  return recurrent_scratch<Avx512Tile>(call.context, call.in[0].dim(0), 3, call.in[1].dim(1));
}
PREPARE(gru, f32, avx512) { return recurrent_prepare<Avx512Tile>(call.in[1], to); }
KERNEL(gru_dx, f32, avx512) { return gemm_gru_dx<Avx512Tile>(call); }
SCRATCH(gru_dx, f32, avx512) {
  return recurrent_dx_scratch<Avx512Tile>(call.context, call.in[0].dim(0), 3, call.in[2].dim(1), 2);
}

}  // namespace lite
