#include "kernels/gemm/compressed.h"

#include "kernels/kernels.h"
#include "kernels/neon/gemm_tile.h"
#include "kernels/neon/int_vector.h"

namespace lite {

KERNEL(compressed_linear, f32, neon) {
  return call.attrs.bits == 16 ? halves_layer<NeonTile, NeonHalfTile>(call).run()
                               : compressed_linear<NeonTile, NeonInt>(call);
}
SCRATCH(compressed_linear, f32, neon) {
  return call.attrs.bits == 16 ? halves_layer<NeonTile, NeonHalfTile>(call).scratch_bytes()
                               : compressed_linear_scratch<NeonTile>(call);
}
PREPARE(compressed_linear, f32, neon) {
  return call.attrs.bits == 16 ? halves_layer<NeonTile, NeonHalfTile>(call).prepare(to) : 0;
}

KERNEL(compressed_gather, any, neon) { return compressed_gather<NeonInt>(call); }

KERNEL(decompress, any, neon) { return decompress<NeonInt>(call); }

}  // namespace lite
