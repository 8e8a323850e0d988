#include "kernels/vector/pool.h"

#include "kernels/kernels.h"
#include "kernels/wasm/vector.h"

namespace lite {

KERNEL(max_pool2d, f32, wasm) { return vector_max_pool2d<Wasm, float>(call); }
KERNEL(max_pool2d_dx, f32, wasm) { return vector_max_pool2d_dx<Wasm>(call); }
KERNEL(avg_pool2d, f32, wasm) { return vector_avg_pool2d<Wasm>(call); }
KERNEL(avg_pool2d_dx, f32, wasm) { return vector_avg_pool2d_dx<Wasm>(call); }

}  // namespace lite
