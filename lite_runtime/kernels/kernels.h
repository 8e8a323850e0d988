#pragma once

#include "core/kernel.h"

// Every kernel there is. One that is written but not listed does not compile
// (-Wmissing-declarations); one that is listed but not written does not link.
//
// A list holds X(op, dtype) for a kernel and XS(op, dtype) for one that also has a SCRATCH function.

namespace lite {

// The checks and the reference kernels: one for each operator and type, plain loops, slow on purpose.
#define X(op) CHECK(op);
LITE_OPS(X)
#undef X
#define X(op, dtype) KERNEL(op, dtype, ref);
LITE_REF_KERNELS(X)
#undef X

#if defined(LITE_AVX512)
#define X(op, dtype) KERNEL(op, dtype, avx512);
#define XS(op, dtype)        \
  KERNEL(op, dtype, avx512); \
  SCRATCH(op, dtype, avx512);
#include "kernels/avx512/list.inc"
#undef X
#undef XS
#endif

#if defined(LITE_AVX2)
#define X(op, dtype) KERNEL(op, dtype, avx2);
#define XS(op, dtype)      \
  KERNEL(op, dtype, avx2); \
  SCRATCH(op, dtype, avx2);
#include "kernels/avx2/list.inc"
#undef X
#undef XS
#endif

#if defined(LITE_NEON)
#define X(op, dtype) KERNEL(op, dtype, neon);
#define XS(op, dtype)      \
  KERNEL(op, dtype, neon); \
  SCRATCH(op, dtype, neon);
#include "kernels/neon/list.inc"
#undef X
#undef XS
#endif

#if defined(LITE_WASM)
#define X(op, dtype) KERNEL(op, dtype, wasm);
#define XS(op, dtype)      \
  KERNEL(op, dtype, wasm); \
  SCRATCH(op, dtype, wasm);
#include "kernels/wasm/list.inc"
#undef X
#undef XS
#endif

// A kernel with its types erased: attributes arrive untyped, out of the model file.
struct Kernel {
  int code;
  DType dtype;  // of the first input; none: any
  const char* isa;
  Status (*run)(const Tensor* in, int inputs, Tensor* out, const void* attrs, Context& context);
  uint64_t (*scratch)(const Tensor* in, int inputs, Tensor* out, const void* attrs);  // or null
};

// The best kernel that this processor runs, or null. With `isa`, only that instruction set's
// ("ref", "avx2", "avx512", "neon", "wasm").
const Kernel* find_kernel(int code, DType dtype, const char* isa = nullptr);

// Whether shapes, types and attributes of a call of operator `code` fit together.
bool check_call(int code, const Tensor* in, int inputs, Tensor* out, const void* attrs);

}  // namespace lite
