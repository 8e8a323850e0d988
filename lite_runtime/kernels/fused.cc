// What a program of fused_elementwise may hold.

#include "kernels/fused.h"

namespace lite {
namespace {

constexpr int kHead = 3, kWords = 7;
static_assert(sizeof(FusedInstruction) == kWords * sizeof(int32_t), "the layout of a file");

bool in_range(int32_t value, int32_t end) { return value >= 0 && value < end; }

}  // namespace

FusedOp fused_op(int32_t op) {
  constexpr DType f = DType::f32, b = DType::boolean, none = DType::none;
  switch (op) {
    case code::add:
    case code::sub:
    case code::mul:
    case code::div:
    case code::pow:
    case code::maximum:
    case code::minimum:
      return {2, {f, f, none}, f};
    case code::equal:
    case code::less:
    case code::greater:
    case code::less_equal:
    case code::greater_equal:
      return {2, {f, f, none}, b};
    case code::logical_not:
      return {1, {b, none, none}, b};
    case code::logical_and:
    case code::logical_or:
      return {2, {b, b, none}, b};
    case code::where:
      return {3, {b, f, f}, f};
    case code::is_nan:
      return {1, {f, none, none}, b};
    case code::cast:
      return {1, {b, none, none}, f};
  }
  if (op > code::reciprocal && op < code::stop_gradient) return {1, {f, none, none}, f};
  if (op >= code::neg && op <= code::reciprocal) return {1, {f, none, none}, f};
  return {};
}

bool FusedProgram::read(const int32_t* words, int32_t size, int given) {
  if (size < kHead) return false;
  inputs = given;
  registers = words[0];
  constants = words[1];
  results = words[2];
  if (!in_range(inputs, kMostFusedInputs + 1) || !in_range(registers, kMostFusedRegisters + 1) ||
      !in_range(constants, kMostFusedConstants + 1) || results < 1 || results > kMostFusedResults) {
    return false;
  }
  const int32_t left = size - kHead - constants - results;
  count = left / kWords;
  if (left % kWords != 0 || !in_range(count - 1, kMostFusedInstructions)) return false;
  constant = words + kHead;
  result = constant + constants;
  instructions = reinterpret_cast<const FusedInstruction*>(result + results);

  int written[kMostFusedRegisters] = {};
  for (int i = 0; i < count; ++i) {
    const FusedInstruction& next = instructions[i];
    const FusedOp op = fused_op(next.code);
    if (op.operands == 0 || !in_range(next.to, registers)) return false;
    for (int k = 0; k < op.operands; ++k) {
      const int32_t operand = next.operands[k];
      if (!in_range(operand, operands())) return false;
      if (operand >= first_register() && written[operand - first_register()] == 0) return false;
    }
    if (next.code == code::gelu && !in_range(next.attrs[0], 2)) return false;
    if (next.code == code::cast && next.attrs[0] != static_cast<int>(DType::f32) - 1) return false;
    ++written[next.to];
  }
  for (int i = 0; i < results; ++i) {
    if (!in_range(result[i], registers) || written[result[i]] != 1) return false;
    for (int k = 0; k < i; ++k) {
      if (result[k] == result[i]) return false;
    }
  }
  return true;
}

bool FusedProgram::check_types(const Tensor* in, const Tensor* out) const {
  DType types[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters] = {};
  for (int i = 0; i < inputs; ++i) types[i] = in[i].dtype;
  for (int i = 0; i < constants; ++i) types[inputs + i] = DType::f32;
  for (int i = 0; i < count; ++i) {
    const FusedOp op = fused_op(instructions[i].code);
    for (int k = 0; k < op.operands; ++k) {
      if (types[instructions[i].operands[k]] != op.in[k]) return false;
    }
    types[first_register() + instructions[i].to] = op.out;
  }
  for (int i = 0; i < results; ++i) {
    if (types[first_register() + result[i]] != out[i].dtype) return false;
  }
  return true;
}

bool FusedProgram::may_overwrite(int input, int number) const {
  int write = count;
  for (int i = 0; i < count; ++i) {
    if (instructions[i].to == result[number]) write = i;
    const int operands = fused_op(instructions[i].code).operands;
    for (int k = 0; k < operands; ++k) {
      if (instructions[i].operands[k] == input && i > write) return false;
    }
  }
  return true;
}

}  // namespace lite
