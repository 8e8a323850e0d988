#pragma once

namespace lite {

// What the processor can do, asked once.
struct CpuInfo {
  bool avx2 = false;  // AVX2 and FMA, and the system saves their registers
  bool neon = false;
};

CpuInfo detect_cpu();

}  // namespace lite
