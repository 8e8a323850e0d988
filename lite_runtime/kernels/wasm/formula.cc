#include "kernels/vector/formula.h"

#include "kernels/wasm/vector.h"

#define ISA wasm
#define LITE_INSTRUCTIONS_ONLY
namespace {
using Isa = lite::Wasm;
}
#include "kernels/vector/fused.inc"

namespace lite {
KERNEL(formula, f32, wasm) { return run_formula<Isa>(call, run_instruction<FormulaRows<Isa>>); }
}  // namespace lite
