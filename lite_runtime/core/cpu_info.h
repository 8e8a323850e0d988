#pragma once

namespace lite {

// What the processor can do, asked once.
struct CpuInfo {
  bool avx2 = false;        // AVX2, FMA and F16C, and the system saves their registers
  bool avxvnni = false;     // AVX-VNNI beside AVX2
  bool avx512 = false;      // AVX-512 F, BW, DQ and VL beside AVX2, and the system saves their registers
  bool avx512vnni = false;  // AVX-512 VNNI beside those
  bool neon = false;
  bool fp16 = false;     // arithmetic of float16 on vectors
  bool dotprod = false;  // dot products of four int8 numbers
  bool i8mm = false;     // products of int8 matrices beside those
  bool wasm = false;     // SIMD128 of WebAssembly
};

CpuInfo detect_cpu();

}  // namespace lite
