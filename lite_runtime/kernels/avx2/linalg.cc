#include "kernels/gemm/linalg.h"

#include "kernels/avx2/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(matmul, f32, avx2) { return gemm_matmul<Avx2Tile>(call); }
SCRATCH(matmul, f32, avx2) { return gemm_matmul_scratch<Avx2Tile>(call); }

KERNEL(linear, f32, avx2) { return gemm_linear<Avx2Tile>(call); }
SCRATCH(linear, f32, avx2) { return gemm_linear_scratch<Avx2Tile>(call); }
PREPARE(linear, f32, avx2) { return gemm_linear_prepare<Avx2Tile>(call, to); }

}  // namespace lite
