#include "kernels/vector/formula.h"

#include "kernels/wasm/vector.h"

namespace lite {

template <>
void run_instruction<Wasm>(const FusedInstruction& next, const FusedOperands& operands, int n);  // fused.cc has it

KERNEL(formula, f32, wasm) { return run_formula<Wasm>(call); }

}  // namespace lite
