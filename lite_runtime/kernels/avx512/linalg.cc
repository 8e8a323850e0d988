#include "kernels/gemm/linalg.h"

#include "kernels/avx512/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(matmul, f32, avx512) { return gemm_matmul<Avx512Tile>(call); }
SCRATCH(matmul, f32, avx512) { return gemm_matmul_scratch<Avx512Tile>(call); }

KERNEL(linear, f32, avx512) { return gemm_linear<Avx512Tile>(call); }
SCRATCH(linear, f32, avx512) { return gemm_linear_scratch<Avx512Tile>(call); }
PREPARE(linear, f32, avx512) { return gemm_linear_prepare<Avx512Tile>(call, to); }

}  // namespace lite
