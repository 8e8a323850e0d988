#include "kernels/vector/pool.h"

#include "kernels/avx2/vector.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(max_pool2d, f32, avx2) { return vector_max_pool2d<Avx2, float>(call); }
KERNEL(max_pool2d_dx, f32, avx2) { return vector_max_pool2d_dx<Avx2>(call); }
KERNEL(avg_pool2d, f32, avx2) { return vector_avg_pool2d<Avx2>(call); }
KERNEL(avg_pool2d_dx, f32, avx2) { return vector_avg_pool2d_dx<Avx2>(call); }

}  // namespace lite
