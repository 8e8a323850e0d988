#include "kernels/gemm/compressed.h"

#include "kernels/avx2/gemm_tile.h"
#include "kernels/avx2/int_vector.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(compressed_linear, f32, avx2) { return compressed_linear<Avx2Tile, Avx2Int>(call); }
SCRATCH(compressed_linear, f32, avx2) { return compressed_linear_scratch<Avx2Tile>(call); }

KERNEL(compressed_gather, any, avx2) { return compressed_gather<Avx2Int>(call); }

KERNEL(decompress, any, avx2) { return decompress<Avx2Int>(call); }

}  // namespace lite
