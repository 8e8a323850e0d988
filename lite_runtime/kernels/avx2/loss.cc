#include "kernels/vector/loss.h"

#include "kernels/avx2/vector.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(softmax_cross_entropy, f32, avx2) { return vector_softmax_cross_entropy<Avx2>(call); }
KERNEL(softmax_cross_entropy_dx, f32, avx2) { return vector_softmax_cross_entropy_dx<Avx2>(call); }

}  // namespace lite
