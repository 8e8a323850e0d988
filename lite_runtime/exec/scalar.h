#pragma once

#include "core/tensor.h"

namespace lite {

// A node on tensors of one element, as a plain function of their addresses: inputs, then results. Only operators that
// every instruction set rounds alike have one, so that it gives the bits of any kernel.
using Scalar = void (*)(void* const* at);

// The function for a call of operator `code`, or null. The call has passed the operator's CHECK.
Scalar find_scalar(int code, const Tensor* in, int inputs, const Tensor* out, int results);

}  // namespace lite
