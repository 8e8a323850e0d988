#include "kernels/fp16/layer.h"
#include "kernels/kernels.h"

// Layers on weights in float16; all others are NEON's.

namespace lite {
namespace {

LayerInputs inputs_of_linear(const Call<compressed_linear_attrs>& call) {
  return {call.in[0], call.in[1], nullptr, call.optional(3)};
}

}  // namespace

#define LAYER(op, layer)                                                                                 \
  KERNEL(op, f32, fp16) { return layer.takes() ? layer.run() : op##_f32_neon(call); }                    \
  SCRATCH(op, f32, fp16) { return layer.takes() ? layer.scratch_bytes() : op##_f32_neon_scratch(call); } \
  PREPARE(op, f32, fp16) { return layer.takes() ? layer.prepare(to) : op##_f32_neon_prepare(call, to); }

LAYER(conv2d, half_convolution(call))
LAYER(conv2d_add, half_convolution(call))
LAYER(linear, half_product(call, inputs_of(call)))
LAYER(linear_add, half_product(call, inputs_of(call)))
LAYER(compressed_linear, half_product(call, inputs_of_linear(call)))

}  // namespace lite
