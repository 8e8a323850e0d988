#include "kernels/kernels.h"

#include <cstring>
#include <initializer_list>

#include "core/cpu_info.h"

namespace lite {
namespace {

namespace dtype_of {  // the word in a kernel's name -> its type
constexpr DType f32 = DType::f32, i8 = DType::i8, i16 = DType::i16, i32 = DType::i32, i64 = DType::i64,
                boolean = DType::boolean, any = DType::none;
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
uint64_t scratch(const Tensor* in, int inputs, Tensor* out, const void* attrs, const void* prepared) {
  Context context;
  context.prepared = prepared;
  return scratch_of({in, inputs, out, *static_cast<const Attrs*>(attrs), context});
}

template <typename Attrs, uint64_t (*prepare_of)(const Call<Attrs>&, void*)>
uint64_t prepare(const Tensor* in, int inputs, Tensor* out, const void* attrs, void* to) {
  Context none;
  return prepare_of({in, inputs, out, *static_cast<const Attrs*>(attrs), none}, to);
}

#define NAME(isa) #isa
#define IF_BUILT(op, function) (is_built(code::op) ? function : nullptr)
#define RUN(op, dtype, isa) IF_BUILT(op, (run<op##_attrs, op##_##dtype##_##isa>))
#define SCRATCH_OF(op, dtype, isa) IF_BUILT(op, (scratch<op##_attrs, op##_##dtype##_##isa##_scratch>))
#define PREPARE_OF(op, dtype, isa) IF_BUILT(op, (prepare<op##_attrs, op##_##dtype##_##isa##_prepare>))
#define ENTRY(op, dtype, isa, scratch, prepare, of_attrs, halves) \
  {code::op, dtype_of::dtype, IF_BUILT(op, NAME(isa)), RUN(op, dtype, isa), scratch, prepare, of_attrs, halves},
#define ENTRY_X(op, dtype, isa) ENTRY(op, dtype, isa, nullptr, nullptr, false, false)
#define ENTRY_XS(op, dtype, isa) ENTRY(op, dtype, isa, SCRATCH_OF(op, dtype, isa), nullptr, false, false)
#define ENTRY_XP(op, dtype, isa) \
  ENTRY(op, dtype, isa, SCRATCH_OF(op, dtype, isa), PREPARE_OF(op, dtype, isa), false, false)
#define ENTRY_XH(op, dtype, isa) \
  ENTRY(op, dtype, isa, SCRATCH_OF(op, dtype, isa), PREPARE_OF(op, dtype, isa), false, true)
#define ENTRY_XA(op, dtype, isa) ENTRY(op, dtype, isa, nullptr, PREPARE_OF(op, dtype, isa), true, false)
#define LISTED(entry, op, dtype, isa) entry(op, dtype, isa)

// Best first.
constexpr Kernel kKernels[] = {
#define X(op, dtype) LISTED(ENTRY_X, op, dtype, LITE_ISA)
#define XS(op, dtype) LISTED(ENTRY_XS, op, dtype, LITE_ISA)
#define XP(op, dtype) LISTED(ENTRY_XP, op, dtype, LITE_ISA)
#define XH(op, dtype) LISTED(ENTRY_XH, op, dtype, LITE_ISA)
#define XA(op, dtype) LISTED(ENTRY_XA, op, dtype, LITE_ISA)
#include "kernels/lists.inc"
#undef X
#undef XS
#undef XP
#undef XH
#undef XA
#define X(op, dtype) ENTRY_X(op, dtype, ref)
    LITE_REF_KERNELS(X)
#undef X
};

bool runs_here(const char* isa) {
  const CpuInfo cpu = detect_cpu();
  const auto is = [isa](const char* name) { return std::strcmp(isa, name) == 0; };
  return is("avx2")         ? cpu.avx2
         : is("avxvnni")    ? cpu.avxvnni
         : is("avx512")     ? cpu.avx512
         : is("avx512vnni") ? cpu.avx512vnni
         : is("neon")       ? cpu.neon
         : is("fp16")       ? cpu.fp16
         : is("dotprod")    ? cpu.dotprod
         : is("i8mm")       ? cpu.i8mm
         : is("wasm")       ? cpu.wasm
                            : is("ref");
}

}  // namespace

const char* find_isa(const char* name) {
  for (const char* isa : kIsas) {
    if (std::strcmp(isa, name) == 0) return runs_here(isa) ? isa : nullptr;
  }
  return nullptr;
}

const Kernel* find_kernel(int code, DType dtype, const char* isa) {
  for (const Kernel& k : kKernels) {
    if (k.run == nullptr || k.code != code || (k.dtype != DType::none && k.dtype != dtype)) continue;
    const bool wanted = isa != nullptr ? std::strcmp(k.isa, isa) == 0 : std::strcmp(k.isa, "fp16") != 0;
    if (wanted && runs_here(k.isa)) return &k;
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
