#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "gen/op_table.h"

// Programs of fused_elementwise: what their words mean (ir/ops/fused.py), and whether they are sound.

namespace lite {

constexpr int kMostFusedInputs = 16, kMostFusedConstants = 16, kMostFusedRegisters = 24, kMostFusedResults = 8,
              kMostFusedInstructions = 64;

// One operator of a program, as its words lie in a file. An operand is the number of an input, then of a constant, then
// of a register.
struct FusedInstruction {
  int32_t code, to, operands[3], attrs[2];
};

// A view of a program's words. Only `read` looks at words that may be anything.
struct FusedProgram {
  int inputs = 0, registers = 0, constants = 0, results = 0, count = 0;
  const int32_t* constant = nullptr;  // bits of floats
  const int32_t* result = nullptr;    // the register of each
  const FusedInstruction* instructions = nullptr;

  // False: these words are no program on `inputs` inputs: counts, operators, operands or attributes out of range, a
  // register that is read before it is written, or one of a result that is written twice. Types are `check_types`'s.
  bool read(const int32_t* words, int32_t size, int inputs);
  // Whether operands have the types that the operators want, and results those of `out`.
  bool check_types(const Tensor* in, const Tensor* out) const;

  int operands() const { return inputs + constants + registers; }
  int first_register() const { return inputs + constants; }
  // Whether a result of floats may lie where input `input` does: the program reads no element of it after it has
  // written that element of the result.
  bool may_overwrite(int input, int result) const;
};

struct FusedOp {
  int operands = 0;  // 0: no operator of programs
  DType in[3] = {}, out = DType::none;
};
FusedOp fused_op(int32_t code);

}  // namespace lite
