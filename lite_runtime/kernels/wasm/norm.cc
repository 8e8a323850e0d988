#include "kernels/kernels.h"
#include "kernels/vector/norm_dx.h"
#include "kernels/wasm/vector.h"

namespace lite {

KERNEL(batch_norm, f32, wasm) { return vector_batch_norm<Wasm>(call); }
SCRATCH(batch_norm, f32, wasm) { return static_cast<uint64_t>(call.y().dim(-1)) * sizeof(float); }
KERNEL(batch_norm_train, f32, wasm) { return vector_batch_norm_train<Wasm>(call); }
SCRATCH(batch_norm_train, f32, wasm) { return batch_norm_train_scratch(call); }
KERNEL(batch_norm_train_dx, f32, wasm) { return vector_batch_norm_train_dx<Wasm>(call); }
SCRATCH(batch_norm_train_dx, f32, wasm) { return batch_norm_train_dx_scratch(call); }
KERNEL(layer_norm, f32, wasm) { return vector_layer_norm<Wasm>(call); }
KERNEL(layer_norm_dx, f32, wasm) { return vector_layer_norm_dx<Wasm>(call); }
SCRATCH(layer_norm_dx, f32, wasm) { return layer_norm_dx_scratch(call); }

KERNEL(softmax, f32, wasm) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_softmax<Wasm>(call) : softmax_f32_ref(call);
}
KERNEL(softmax_dx, f32, wasm) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_softmax_dx<Wasm>(call) : softmax_dx_f32_ref(call);
}
KERNEL(log_softmax, f32, wasm) {
  return call.attrs.axis == call.y().rank() - 1 ? vector_log_softmax<Wasm>(call) : log_softmax_f32_ref(call);
}

}  // namespace lite
