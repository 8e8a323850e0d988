#include "kernels/gemm/attention.h"

#include "kernels/avx2/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(attention, f32, avx2) { return gemm_attention<Avx2Tile>(call); }
SCRATCH(attention, f32, avx2) { return gemm_attention_scratch<Avx2Tile>(call); }

}  // namespace lite
