#include "kernels/vector/pool.h"

#include "kernels/kernels.h"
#include "kernels/neon/vector.h"

namespace lite {

KERNEL(max_pool2d, f32, neon) { return vector_max_pool2d<Neon, float>(call); }
KERNEL(max_pool2d_dx, f32, neon) { return vector_max_pool2d_dx<Neon>(call); }
KERNEL(avg_pool2d, f32, neon) { return vector_avg_pool2d<Neon>(call); }
KERNEL(avg_pool2d_dx, f32, neon) { return vector_avg_pool2d_dx<Neon>(call); }

}  // namespace lite
