#include "kernels/vector/formula.h"

#include "kernels/avx2/vector.h"

namespace lite {

template <>
void run_instruction<Avx2>(const FusedInstruction& next, const FusedOperands& operands, int n);  // fused.cc has it

KERNEL(formula, f32, avx2) { return run_formula<Avx2>(call); }

}  // namespace lite
