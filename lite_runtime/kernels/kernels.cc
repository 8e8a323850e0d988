#include "kernels/kernels.h"

#include <cstring>
#include <initializer_list>

#include "core/cpu_info.h"

namespace lite {
namespace {

namespace dtype_of {  // the word in a kernel's name -> its type
constexpr DType f32 = DType::f32, i8 = DType::i8, i32 = DType::i32, boolean = DType::boolean, any = DType::none;
}

// Whether this build has the kernels of an operator: one for chosen models leaves out all others.
constexpr bool is_built([[maybe_unused]] int code) {
#if defined(LITE_BUILT_OPS)
  for (int built : {LITE_BUILT_OPS}) {
    if (built == code) return true;
  }
  return false;
#else
  return true;
#endif
}

template <typename Attrs, Status (*kernel)(const Call<Attrs>&)>
Status run(const Tensor* in, int inputs, Tensor* out, const void* attrs, Context& context) {
  return kernel({in, inputs, out, *static_cast<const Attrs*>(attrs), context});
}

template <typename Attrs, uint64_t (*scratch_of)(const Call<Attrs>&)>
uint64_t scratch(const Tensor* in, int inputs, Tensor* out, const void* attrs) {
  Context none;
  return scratch_of({in, inputs, out, *static_cast<const Attrs*>(attrs), none});
}

#define IF_BUILT(op, function) (is_built(code::op) ? function : nullptr)
#define ENTRY(op, dtype, isa) \
  {code::op, dtype_of::dtype, #isa, IF_BUILT(op, (run<op##_attrs, op##_##dtype##_##isa>)), nullptr},
#define ENTRY_SCRATCH(op, dtype, isa)                                                      \
  {code::op, dtype_of::dtype, #isa, IF_BUILT(op, (run<op##_attrs, op##_##dtype##_##isa>)), \
   IF_BUILT(op, (scratch<op##_attrs, op##_##dtype##_##isa##_scratch>))},

// Best first.
constexpr Kernel kKernels[] = {
#if defined(LITE_AVX512)
#define X(op, dtype) ENTRY(op, dtype, avx512)
#define XS(op, dtype) ENTRY_SCRATCH(op, dtype, avx512)
#include "kernels/avx512/list.inc"
#undef X
#undef XS
#endif
#if defined(LITE_AVX2)
#define X(op, dtype) ENTRY(op, dtype, avx2)
#define XS(op, dtype) ENTRY_SCRATCH(op, dtype, avx2)
#include "kernels/avx2/list.inc"
#undef X
#undef XS
#endif
#if defined(LITE_NEON)
#define X(op, dtype) ENTRY(op, dtype, neon)
#define XS(op, dtype) ENTRY_SCRATCH(op, dtype, neon)
#include "kernels/neon/list.inc"
#undef X
#undef XS
#endif
#if defined(LITE_WASM)
#define X(op, dtype) ENTRY(op, dtype, wasm)
#define XS(op, dtype) ENTRY_SCRATCH(op, dtype, wasm)
#include "kernels/wasm/list.inc"
#undef X
#undef XS
#endif
#define X(op, dtype) ENTRY(op, dtype, ref)
    LITE_REF_KERNELS(X)
#undef X
};

bool runs_here(const char* isa) {
  const CpuInfo cpu = detect_cpu();
  if (std::strcmp(isa, "avx2") == 0) return cpu.avx2;
  if (std::strcmp(isa, "avx512") == 0) return cpu.avx512;
  if (std::strcmp(isa, "neon") == 0) return cpu.neon;
  if (std::strcmp(isa, "wasm") == 0) return cpu.wasm;
  return true;
}

}  // namespace

const Kernel* find_kernel(int code, DType dtype, const char* isa) {
  for (const Kernel& k : kKernels) {
    if (k.run == nullptr || k.code != code || (k.dtype != DType::none && k.dtype != dtype)) continue;
    if (isa != nullptr ? std::strcmp(k.isa, isa) == 0 && runs_here(isa) : runs_here(k.isa)) return &k;
  }
  return nullptr;
}

bool check_call(int code, const Tensor* in, int inputs, Tensor* out, const void* attrs) {
  Context none;
  switch (code) {
#define X(op)                                                                             \
  case code::op:                                                                          \
    if constexpr (is_built(code::op)) {                                                   \
      return op##_check({in, inputs, out, *static_cast<const op##_attrs*>(attrs), none}); \
    }                                                                                     \
    break;
    LITE_OPS(X)
#undef X
  }
  return false;
}

}  // namespace lite
