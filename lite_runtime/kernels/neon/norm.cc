#include "kernels/kernels.h"
#include "kernels/neon/vector.h"
#include "kernels/vector/norm_dx.h"

namespace lite {

KERNEL(batch_norm, f32, neon) { return vector_batch_norm<Neon>(call); }
SCRATCH(batch_norm, f32, neon) { return static_cast<size_t>(call.y().dim(-1)) * sizeof(float); }
KERNEL(batch_norm_train, f32, neon) { return vector_batch_norm_train<Neon>(call, -kNoLimit, kNoLimit); }
SCRATCH(batch_norm_train, f32, neon) { return batch_norm_train_scratch(call); }
KERNEL(batch_norm_train_dx, f32, neon) { return vector_batch_norm_train_dx<Neon, false>(call, kNoLimit); }
SCRATCH(batch_norm_train_dx, f32, neon) { return batch_norm_train_dx_scratch(call); }
KERNEL(batch_norm_relu, f32, neon) { return vector_batch_norm_train<Neon>(call, 0.0f, call.attrs.limit); }
SCRATCH(batch_norm_relu, f32, neon) { return batch_norm_train_scratch(call); }
KERNEL(batch_norm_relu_dx, f32, neon) { return vector_batch_norm_train_dx<Neon, true>(call, call.attrs.limit); }
SCRATCH(batch_norm_relu_dx, f32, neon) { return batch_norm_train_dx_scratch(call); }
KERNEL(layer_norm, f32, neon) { return vector_layer_norm<Neon>(call); }
KERNEL(layer_norm_dx, f32, neon) { return vector_layer_norm_dx<Neon>(call); }
SCRATCH(layer_norm_dx, f32, neon) { return layer_norm_dx_scratch(call); }

KERNEL(softmax, f32, neon) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_softmax<Neon>(call) : softmax_f32_ref(call);
}
KERNEL(softmax_dx, f32, neon) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_softmax_dx<Neon>(call) : softmax_dx_f32_ref(call);
}
KERNEL(log_softmax, f32, neon) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_log_softmax<Neon>(call) : log_softmax_f32_ref(call);
}

}  // namespace lite
