#include "kernels/vector/update.h"

#include "kernels/avx512/vector.h"

namespace lite {

KERNEL(sgd_step, f32, avx512) { return vsgd_step<Avx512>(call); }
KERNEL(momentum_step, f32, avx512) { return vmomentum_step<Avx512>(call); }
KERNEL(adam_step, f32, avx512) { return vadam_step<Avx512>(call); }

}  // namespace lite
