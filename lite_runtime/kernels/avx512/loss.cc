#include "kernels/vector/loss.h"

#include "kernels/avx512/vector.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(softmax_cross_entropy, f32, avx512) { return vector_softmax_cross_entropy<Avx512>(call); }
KERNEL(softmax_cross_entropy_dx, f32, avx512) { return vector_softmax_cross_entropy_dx<Avx512>(call); }

}  // namespace lite
