#include "kernels/gemm/attention.h"

#include "kernels/avx512/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(attention, f32, avx512) { return gemm_attention<Avx512Tile>(call); }
SCRATCH(attention, f32, avx512) { return gemm_attention_scratch<Avx512Tile>(call); }

}  // namespace lite
