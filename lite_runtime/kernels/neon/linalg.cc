#include "kernels/gemm/linalg.h"

#include "kernels/kernels.h"
#include "kernels/neon/gemm_tile.h"

namespace lite {

KERNEL(matmul, f32, neon) { return gemm_matmul<NeonTile>(call); }
SCRATCH(matmul, f32, neon) { return gemm_matmul_scratch<NeonTile>(call); }

KERNEL(linear, f32, neon) { return LinearLayer<NeonTile, NeonHalfTile>(call).run(); }
SCRATCH(linear, f32, neon) { return LinearLayer<NeonTile, NeonHalfTile>(call).scratch_bytes(); }
PREPARE(linear, f32, neon) { return LinearLayer<NeonTile, NeonHalfTile>(call).prepare(to); }

KERNEL(linear_add, f32, neon) { return LinearLayer<NeonTile, NeonHalfTile>(call).run(); }
SCRATCH(linear_add, f32, neon) { return LinearLayer<NeonTile, NeonHalfTile>(call).scratch_bytes(); }
PREPARE(linear_add, f32, neon) { return LinearLayer<NeonTile, NeonHalfTile>(call).prepare(to); }

}  // namespace lite
