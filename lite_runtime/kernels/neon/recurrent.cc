#include "kernels/gemm/recurrent.h"

#include "kernels/kernels.h"
#include "kernels/neon/gemm_tile.h"

namespace lite {

KERNEL(lstm, f32, neon) { return gemm_lstm<NeonTile>(call); }
SCRATCH(lstm, f32, neon) { return recurrent_scratch<NeonTile>(call.context, call.in[0].dim(0), 4, call.in[1].dim(1)); }
PREPARE(lstm, f32, neon) { return recurrent_prepare<NeonTile>(call.in[1], to); }
KERNEL(lstm_dx, f32, neon) { return gemm_lstm_dx<NeonTile>(call); }
SCRATCH(lstm_dx, f32, neon) {
  return recurrent_dx_scratch<NeonTile>(call.context, call.in[0].dim(0), 4, call.in[2].dim(1), 0);
}
KERNEL(gru, f32, neon) { return gemm_gru<NeonTile>(call); }
SCRATCH(gru, f32, neon) { return recurrent_scratch<NeonTile>(call.context, call.in[0].dim(0), 3, call.in[1].dim(1)); }
PREPARE(gru, f32, neon) { return recurrent_prepare<NeonTile>(call.in[1], to); }
KERNEL(gru_dx, f32, neon) { return gemm_gru_dx<NeonTile>(call); }
SCRATCH(gru_dx, f32, neon) {
  return recurrent_dx_scratch<NeonTile>(call.context, call.in[0].dim(0), 3, call.in[2].dim(1), 2);
}

}  // namespace lite
