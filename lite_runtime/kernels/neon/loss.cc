#include "kernels/vector/loss.h"

#include "kernels/kernels.h"
#include "kernels/neon/vector.h"

namespace lite {

KERNEL(softmax_cross_entropy, f32, neon) { return vector_softmax_cross_entropy<Neon>(call); }
KERNEL(softmax_cross_entropy_dx, f32, neon) { return vector_softmax_cross_entropy_dx<Neon>(call); }

}  // namespace lite
