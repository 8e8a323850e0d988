#include "core/cpu_info.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace lite {

namespace {

#if defined(__x86_64__)
// Bit 4 of EAX in leaf 7, part 1.
bool has_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a >> 4 & 1) != 0;
}
#endif

}  // namespace

CpuInfo detect_cpu() {
  CpuInfo info;
#if defined(__x86_64__)
  __builtin_cpu_init();
  info.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  info.avx512 = info.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  info.avx512vnni = info.avx512 && __builtin_cpu_supports("avx512vnni");
  info.avxvnni = info.avx2 && has_avxvnni();
#elif defined(__aarch64__)
  info.neon = true;  // part of the base architecture
#if defined(__linux__)
  // HWCAP_ASIMDHP, HWCAP_ASIMDDP, HWCAP2_I8MM
  constexpr unsigned long kHalves = 1ul << 10, kDotProduct = 1ul << 20, kInt8MatrixProduct = 1ul << 13;
  info.fp16 = (getauxval(AT_HWCAP) & kHalves) != 0;
  info.dotprod = (getauxval(AT_HWCAP) & kDotProduct) != 0;
  info.i8mm = info.dotprod && (getauxval(AT_HWCAP2) & kInt8MatrixProduct) != 0;
#endif
#elif defined(__wasm__)
  info.wasm = true;  // an engine that lacks it refuses the whole module
#endif
  return info;
}

}  // namespace lite
