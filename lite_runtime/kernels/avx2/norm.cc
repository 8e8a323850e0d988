#include "kernels/avx2/vector.h"
#include "kernels/kernels.h"
#include "kernels/vector/norm_dx.h"

namespace lite {

KERNEL(batch_norm, f32, avx2) { return vector_batch_norm<Avx2>(call); }
SCRATCH(batch_norm, f32, avx2) { return static_cast<size_t>(call.y().dim(-1)) * sizeof(float); }
KERNEL(batch_norm_train, f32, avx2) { return vector_batch_norm_train<Avx2>(call, -kNoLimit, kNoLimit); }
SCRATCH(batch_norm_train, f32, avx2) { return batch_norm_train_scratch(call); }
KERNEL(batch_norm_train_dx, f32, avx2) { return vector_batch_norm_train_dx<Avx2, false>(call, kNoLimit); }
SCRATCH(batch_norm_train_dx, f32, avx2) { return batch_norm_train_dx_scratch(call); }
KERNEL(batch_norm_relu, f32, avx2) { return vector_batch_norm_train<Avx2>(call, 0.0f, call.attrs.limit); }
SCRATCH(batch_norm_relu, f32, avx2) { return batch_norm_train_scratch(call); }
KERNEL(batch_norm_relu_dx, f32, avx2) { return vector_batch_norm_train_dx<Avx2, true>(call, call.attrs.limit); }
SCRATCH(batch_norm_relu_dx, f32, avx2) { return batch_norm_train_dx_scratch(call); }
KERNEL(layer_norm, f32, avx2) { return vector_layer_norm<Avx2>(call); }
KERNEL(layer_norm_dx, f32, avx2) { return vector_layer_norm_dx<Avx2>(call); }
SCRATCH(layer_norm_dx, f32, avx2) { return layer_norm_dx_scratch(call); }

KERNEL(softmax, f32, avx2) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_softmax<Avx2>(call) : softmax_f32_ref(call);
}
KERNEL(softmax_dx, f32, avx2) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_softmax_dx<Avx2>(call) : softmax_dx_f32_ref(call);
}
KERNEL(log_softmax, f32, avx2) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_log_softmax<Avx2>(call) : log_softmax_f32_ref(call);
}

}  // namespace lite
