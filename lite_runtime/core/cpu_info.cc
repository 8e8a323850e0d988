#include "core/cpu_info.h"

namespace lite {

CpuInfo detect_cpu() {
  CpuInfo info;
#if defined(__x86_64__)
  __builtin_cpu_init();
  info.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  info.avx512 = info.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
  info.neon = true;  // part of the base architecture
#elif defined(__wasm__)
  info.wasm = true;  // an engine that lacks it refuses the whole module
#endif
  return info;
}

}  // namespace lite
