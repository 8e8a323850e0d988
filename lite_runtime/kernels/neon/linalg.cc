#include "kernels/gemm/linalg.h"

#include "kernels/kernels.h"
#include "kernels/neon/gemm_tile.h"

namespace lite {

KERNEL(matmul, f32, neon) { return gemm_matmul<NeonTile>(call); }
SCRATCH(matmul, f32, neon) { return gemm_matmul_scratch<NeonTile>(call); }

KERNEL(linear, f32, neon) { return gemm_linear<NeonTile>(call); }
SCRATCH(linear, f32, neon) { return gemm_linear_scratch<NeonTile>(call); }
PREPARE(linear, f32, neon) { return gemm_linear_prepare<NeonTile>(call, to); }

}  // namespace lite
