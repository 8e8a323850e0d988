#include "kernels/vector/formula.h"

#include "kernels/neon/vector.h"

#define ISA neon
#define LITE_INSTRUCTIONS_ONLY
namespace {
using Isa = lite::Neon;
}
#include "kernels/vector/fused.inc"

namespace lite {
KERNEL(formula, f32, neon) { return run_formula<Isa>(call, run_instruction<FormulaRows<Isa>>); }
}  // namespace lite
