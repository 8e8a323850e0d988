#include "kernels/vector/update.h"

#include "kernels/neon/vector.h"

namespace lite {

KERNEL(sgd_step, f32, neon) { return vsgd_step<Neon>(call); }
KERNEL(momentum_step, f32, neon) { return vmomentum_step<Neon>(call); }
KERNEL(adam_step, f32, neon) { return vadam_step<Neon>(call); }

}  // namespace lite
