#include "kernels/vector/reduce.h"

#include "kernels/avx2/vector.h"

namespace lite {

KERNEL(reduce_sum, f32, avx2) { return vreduce<Avx2, Sum>(call) ? Status::kOk : reduce_sum_f32_ref(call); }
KERNEL(reduce_mean, f32, avx2) { return vreduce<Avx2, Sum>(call, true) ? Status::kOk : reduce_mean_f32_ref(call); }
KERNEL(reduce_max, f32, avx2) { return vreduce<Avx2, Max>(call) ? Status::kOk : reduce_max_f32_ref(call); }

}  // namespace lite
