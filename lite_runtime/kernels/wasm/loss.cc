#include "kernels/vector/loss.h"

#include "kernels/kernels.h"
#include "kernels/wasm/vector.h"

namespace lite {

KERNEL(softmax_cross_entropy, f32, wasm) { return vector_softmax_cross_entropy<Wasm>(call); }
KERNEL(softmax_cross_entropy_dx, f32, wasm) { return vector_softmax_cross_entropy_dx<Wasm>(call); }

}  // namespace lite
