#include "kernels/vector/pool.h"

#include "kernels/avx512/vector.h"
#include "kernels/kernels.h"

namespace lite {

KERNEL(max_pool2d, f32, avx512) { return vector_max_pool2d<Avx512, float>(call); }
KERNEL(max_pool2d_dx, f32, avx512) { return vector_max_pool2d_dx<Avx512>(call); }
KERNEL(avg_pool2d, f32, avx512) { return vector_avg_pool2d<Avx512>(call); }
KERNEL(avg_pool2d_dx, f32, avx512) { return vector_avg_pool2d_dx<Avx512>(call); }

}  // namespace lite
