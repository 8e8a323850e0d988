#include "kernels/vector/reduce.h"

#include "kernels/wasm/vector.h"

namespace lite {
namespace {

// By `Fold`, or by the reference kernel where nothing is reduced.
template <class Fold, typename Attrs>
Status reduce(const Call<Attrs>& call, Status (*ref)(const Call<Attrs>& call), bool mean = false) {
  const bool done = vreduce<Wasm, Fold>(call.context.pool, call.in[0], call.attrs.axes, call.y(), mean);
  return done ? Status::kOk : ref(call);
}

}  // namespace

KERNEL(reduce_sum, f32, wasm) { return reduce<Sum>(call, reduce_sum_f32_ref); }
KERNEL(reduce_mean, f32, wasm) { return reduce<Sum>(call, reduce_mean_f32_ref, true); }
KERNEL(reduce_max, f32, wasm) { return reduce<Max>(call, reduce_max_f32_ref); }
KERNEL(reduce_min, f32, wasm) { return reduce<Min>(call, reduce_min_f32_ref); }

}  // namespace lite
