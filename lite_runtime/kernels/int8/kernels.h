#pragma once

#include "kernels/int8/layer.h"

// The three functions of a layer's kernel, made of a class that has prepared_size, prepare, scratch_size and run.
#define LITE_INT8_LAYER(op, Class, isa)                                                      \
  SCRATCH(op, i8, isa) { return Class(layer_of(call)).scratch_size(call.context.prepared); } \
  PREPARE(op, i8, isa) {                                                                     \
    const Class layer(layer_of(call));                                                       \
    if (to != nullptr) layer.prepare(call, to);                                              \
    return layer.prepared_size();                                                            \
  }                                                                                          \
  KERNEL(op, i8, isa) { return Class(layer_of(call)).run(call); }
