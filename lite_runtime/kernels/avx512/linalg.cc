#include "kernels/gemm/linalg.h"

#include "kernels/avx512/gemm_tile.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(matmul, f32, avx512) { return gemm_matmul<Avx512Tile>(call); }
SCRATCH(matmul, f32, avx512) { return gemm_matmul_scratch<Avx512Tile>(call); }

KERNEL(linear, f32, avx512) { return LinearLayer<Avx512Tile>(call).run(); }
SCRATCH(linear, f32, avx512) { return LinearLayer<Avx512Tile>(call).scratch_bytes(); }
PREPARE(linear, f32, avx512) { return LinearLayer<Avx512Tile>(call).prepare(to); }

KERNEL(linear_add, f32, avx512) { return LinearLayer<Avx512Tile>(call).run(); }
SCRATCH(linear_add, f32, avx512) { return LinearLayer<Avx512Tile>(call).scratch_bytes(); }
PREPARE(linear_add, f32, avx512) { return LinearLayer<Avx512Tile>(call).prepare(to); }

}  // namespace lite
