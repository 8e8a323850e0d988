#include "kernels/vector/update.h"

#include "kernels/wasm/vector.h"

namespace lite {

KERNEL(sgd_step, f32, wasm) { return vsgd_step<Wasm>(call); }
KERNEL(momentum_step, f32, wasm) { return vmomentum_step<Wasm>(call); }
KERNEL(adam_step, f32, wasm) { return vadam_step<Wasm>(call); }

}  // namespace lite
