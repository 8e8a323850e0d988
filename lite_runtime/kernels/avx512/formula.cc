#include "kernels/vector/formula.h"

#include "kernels/avx512/vector.h"

namespace lite {

template <>
void run_instruction<Avx512>(const FusedInstruction& next, const FusedOperands& operands, int n);  // fused.cc has it

KERNEL(formula, f32, avx512) { return run_formula<Avx512>(call); }

}  // namespace lite
