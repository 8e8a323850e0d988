#include "kernels/gemm/attention.h"

#include "kernels/kernels.h"
#include "kernels/neon/gemm_tile.h"

namespace lite {

KERNEL(attention, f32, neon) { return gemm_attention<NeonTile>(call); }
SCRATCH(attention, f32, neon) { return gemm_attention_scratch<NeonTile>(call); }

}  // namespace lite
