#include "kernels/vector/formula.h"

#include "kernels/avx512/vector.h"

#define ISA avx512
#define LITE_INSTRUCTIONS_ONLY
namespace {
using Isa = lite::Avx512;
}
#include "kernels/vector/fused.inc"

namespace lite {
KERNEL(formula, f32, avx512) { return run_formula<Isa>(call, run_instruction<FormulaRows<Isa>>); }
}  // namespace lite
