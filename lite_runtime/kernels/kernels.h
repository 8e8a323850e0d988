#pragma once

#include "core/kernel.h"

// Every kernel there is. One that is written but not listed does not compile
// (-Wmissing-declarations); one that is listed but not written does not link.
//
// A list holds X(op, dtype) for a kernel, XS(op, dtype) for one that also has a SCRATCH function, and XP(op, dtype) for
// one that has a PREPARE function, too; XH(op, dtype) for one that besides takes a weight in float16 where its operator
// has it in float32; XA(op, dtype) for one with a PREPARE function that reads attributes alone.

namespace lite {

// The checks and the reference kernels: one for each operator and type, plain loops, slow on purpose.
#define X(op) CHECK(op);
LITE_OPS(X)
#undef X
#define X(op, dtype) KERNEL(op, dtype, ref);
LITE_REF_KERNELS(X)
#undef X

#define DECLARE(kind, op, dtype, isa) kind(op, dtype, isa);
#define X(op, dtype) DECLARE(KERNEL, op, dtype, LITE_ISA)
#define XS(op, dtype) X(op, dtype) DECLARE(SCRATCH, op, dtype, LITE_ISA)
#define XP(op, dtype) XS(op, dtype) DECLARE(PREPARE, op, dtype, LITE_ISA)
#define XH(op, dtype) XP(op, dtype)
#define XA(op, dtype) X(op, dtype) DECLARE(PREPARE, op, dtype, LITE_ISA)
#include "kernels/lists.inc"
#undef X
#undef XS
#undef XP
#undef XH
#undef XA
#undef DECLARE

// A kernel with its types erased: attributes arrive untyped, out of the model file.
struct Kernel {
  int code;
  DType dtype;  // of the first input; none: any
  const char* isa;
  Status (*run)(const Tensor* in, int inputs, Tensor* out, const void* attrs, Context& context);
  // Or null. `prepared` is what a call will have.
  uint64_t (*scratch)(const Tensor* in, int inputs, Tensor* out, const void* attrs, const void* prepared);
  uint64_t (*prepare)(const Tensor* in, int inputs, Tensor* out, const void* attrs, void* to);  // or null
  bool of_attrs;  // what it prepares is made of attributes alone
  bool halves;    // its weight may be in float16
};

// The instruction sets that this build has kernels for, best first and "ref" last: what one lacks, one behind it has.
inline constexpr const char* kIsas[] = {
#if defined(LITE_AVX512VNNI)
    "avx512vnni",
#endif
#if defined(LITE_AVX512)
    "avx512",
#endif
#if defined(LITE_AVXVNNI)
    "avxvnni",
#endif
#if defined(LITE_AVX2)
    "avx2",
#endif
#if defined(LITE_FP16)
    "fp16",
#endif
#if defined(LITE_I8MM)
    "i8mm",
#endif
#if defined(LITE_DOTPROD)
    "dotprod",
#endif
#if defined(LITE_NEON)
    "neon",
#endif
#if defined(LITE_WASM)
    "wasm",
#endif
    "ref"};

// The name of an instruction set that this processor runs, as kIsas has it; null where there is none.
const char* find_isa(const char* name);

// The best kernel that this processor runs, or null. With `isa`, only that instruction set's; without, none of "fp16":
// its kernels round more than their operators say, so they run only where they are asked for.
const Kernel* find_kernel(int code, DType dtype, const char* isa = nullptr);

// Whether shapes, types and attributes of a call of operator `code` fit together.
bool check_call(int code, const Tensor* in, int inputs, Tensor* out, const void* attrs);

}  // namespace lite
