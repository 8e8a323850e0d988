#include "kernels/vector/formula.h"

#include "kernels/neon/vector.h"

namespace lite {

template <>
void run_instruction<Neon>(const FusedInstruction& next, const FusedOperands& operands, int n);  // fused.cc has it

KERNEL(formula, f32, neon) { return run_formula<Neon>(call); }

}  // namespace lite
