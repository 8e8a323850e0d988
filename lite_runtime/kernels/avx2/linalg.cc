#include "kernels/gemm/linalg.h"

#include "kernels/avx2/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(matmul, f32, avx2) { return gemm_matmul<Avx2Tile>(call); }
SCRATCH(matmul, f32, avx2) { return gemm_matmul_scratch<Avx2Tile>(call); }

KERNEL(linear, f32, avx2) { return LinearLayer<Avx2Tile>(call).run(); }
SCRATCH(linear, f32, avx2) { return LinearLayer<Avx2Tile>(call).scratch_bytes(); }
PREPARE(linear, f32, avx2) { return LinearLayer<Avx2Tile>(call).prepare(to); }

KERNEL(linear_add, f32, avx2) { return LinearLayer<Avx2Tile>(call).run(); }
SCRATCH(linear_add, f32, avx2) { return LinearLayer<Avx2Tile>(call).scratch_bytes(); }
PREPARE(linear_add, f32, avx2) { return LinearLayer<Avx2Tile>(call).prepare(to); }

}  // namespace lite
