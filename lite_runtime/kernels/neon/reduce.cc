#include "kernels/vector/reduce.h"

#include "kernels/neon/vector.h"

namespace lite {

KERNEL(reduce_sum, f32, neon) { return vreduce<Neon, Sum>(call) ? Status::kOk : reduce_sum_f32_ref(call); }
KERNEL(reduce_mean, f32, neon) { return vreduce<Neon, Sum>(call, true) ? Status::kOk : reduce_mean_f32_ref(call); }
KERNEL(reduce_max, f32, neon) { return vreduce<Neon, Max>(call) ? Status::kOk : reduce_max_f32_ref(call); }

}  // namespace lite
