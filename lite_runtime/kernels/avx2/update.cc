#include "kernels/vector/update.h"

#include "kernels/avx2/vector.h"

namespace lite {

KERNEL(sgd_step, f32, avx2) { return vsgd_step<Avx2>(call); }
KERNEL(momentum_step, f32, avx2) { return vmomentum_step<Avx2>(call); }
KERNEL(adam_step, f32, avx2) { return vadam_step<Avx2>(call); }

}  // namespace lite
