#include "kernels/fused.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

// A program on a few elements at a time, operator by operator, each by its own reference kernel.

namespace lite {
namespace {

FusedProgram program_of(const Call<fused_elementwise_attrs>& call) {
  FusedProgram program;
  program.read(call.attrs.program.data(), call.attrs.program.size, call.inputs);
  return program;
}

constexpr int kTile = 64;

// A few elements of an operand.
struct Tile {
  alignas(8) unsigned char elements[kTile * sizeof(float)];
  Tensor tensor;

  void start(int n) {
    tensor.data = elements;
    tensor.dtype = DType::f32;
    tensor.shape.size = 1;
    tensor.shape.data[0] = n;
  }
  // Elements of x, stretched to `shape`, from number `begin` on.
  void take(const Tensor& x, const Ints& shape, int64_t begin) {
    tensor.dtype = x.dtype;
    const size_t size = size_of(x.dtype);
    for (int i = 0; i < tensor.shape[0]; ++i) {
      const size_t from = static_cast<size_t>(broadcast_offset(x.shape, shape, begin + i));
      std::memcpy(elements + static_cast<size_t>(i) * size, x.as<unsigned char>() + from * size, size);
    }
  }
};

}  // namespace

CHECK(fused_elementwise) {
  FusedProgram program;
  if (!program.read(call.attrs.program.data(), call.attrs.program.size, call.inputs)) return false;
  for (int i = 0; i < call.inputs; ++i) {
    if (!stretches_to(call.in[i].shape, call.y().shape)) return false;
  }
  for (int i = 0; i < program.results; ++i) {
    if (call.out[i].shape != call.y().shape) return false;
  }
  return program.check_types(call.in, call.out);
}

KERNEL(fused_elementwise, any, ref) {
  const FusedProgram program = program_of(call);
  const Kernel* kernels[kMostFusedInstructions];
  for (int i = 0; i < program.count; ++i) {
    const int32_t op = program.instructions[i].code;
    kernels[i] = find_kernel(op, fused_op(op).in[0], "ref");
  }
  Tile tiles[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters];
  const int64_t total = call.y().elements();
  for (int64_t begin = 0; begin < total; begin += kTile) {
    const int n = static_cast<int>(std::min<int64_t>(kTile, total - begin));
    for (int i = 0; i < program.operands(); ++i) tiles[i].start(n);
    for (int i = 0; i < program.inputs; ++i) tiles[i].take(call.in[i], call.y().shape, begin);
    for (int i = 0; i < program.constants; ++i) {
      std::fill_n(reinterpret_cast<int32_t*>(tiles[program.inputs + i].elements), n, program.constant[i]);
    }
    for (int i = 0; i < program.count; ++i) {
      const FusedInstruction& next = program.instructions[i];
      const FusedOp op = fused_op(next.code);
      Tensor in[3];
      for (int k = 0; k < op.operands; ++k) in[k] = tiles[next.operands[k]].tensor;
      Tensor& to = tiles[program.first_register() + next.to].tensor;
      to.dtype = op.out;
      Context alone;
      LITE_TRY(kernels[i]->run(in, op.operands, &to, next.attrs, alone));
    }
    for (int i = 0; i < program.results; ++i) {
      const Tensor& from = tiles[program.first_register() + program.result[i]].tensor;
      const size_t element = size_of(from.dtype);
      std::memcpy(call.out[i].as<unsigned char>() + static_cast<size_t>(begin) * element, from.data, from.size_bytes());
    }
  }
  return Status::kOk;
}

}  // namespace lite
