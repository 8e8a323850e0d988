#include "kernels/vector/formula.h"

#include "kernels/avx2/vector.h"

#define ISA avx2
#define LITE_INSTRUCTIONS_ONLY
namespace {
using Isa = lite::Avx2;
}
#include "kernels/vector/fused.inc"

namespace lite {
KERNEL(formula, f32, avx2) { return run_formula<Isa>(call, run_instruction<FormulaRows<Isa>>); }
}  // namespace lite
