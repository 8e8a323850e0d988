#include "kernels/gemm/compressed.h"

#include "kernels/avx512/gemm_tile.h"
#include "kernels/avx512/int_vector.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(compressed_linear, f32, avx512) { return compressed_linear<Avx512Tile, Avx512Int>(call); }
SCRATCH(compressed_linear, f32, avx512) { return compressed_linear_scratch<Avx512Tile>(call); }

KERNEL(compressed_gather, any, avx512) { return compressed_gather<Avx512Int>(call); }

KERNEL(decompress, any, avx512) { return decompress<Avx512Int>(call); }

}  // namespace lite
