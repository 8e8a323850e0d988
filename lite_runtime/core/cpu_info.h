#pragma once

namespace lite {

// What the processor can do, asked once.
struct CpuInfo {
  bool avx2 = false;    // AVX2 and FMA, and the system saves their registers
  bool avx512 = false;  // AVX-512 F, BW, DQ and VL beside AVX2, and the system saves their registers
  bool neon = false;
  bool wasm = false;  // SIMD128 of WebAssembly
};

CpuInfo detect_cpu();

}  // namespace lite
