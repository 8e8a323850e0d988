#pragma once

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "kernels/fused.h"
#include "kernels/kernels.h"

// Programs of fused_elementwise on a few elements at a time, operator by operator, each by its own reference kernel.

namespace lite {

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
};

class FusedTilesOfRef {
 public:
  explicit FusedTilesOfRef(const FusedProgram& program) : program_(program) {
    for (int i = 0; i < program.count; ++i) {
      const int32_t op = program.instructions[i].code;
      kernels_[i] = find_kernel(op, fused_op(op).in[0], "ref");
    }
  }

  // Makes room for n elements of every operand; those of inputs are for the caller to set.
  void start(int n) {
    for (int i = 0; i < program_.operands(); ++i) tiles_[i].start(n);
    for (int i = 0; i < program_.constants; ++i) {
      std::fill_n(reinterpret_cast<int32_t*>(tiles_[program_.inputs + i].elements), n, program_.constant[i]);
    }
  }
  // Fails where this build lacks an operator of the program.
  Status run() {
    for (int i = 0; i < program_.count; ++i) {
      if (kernels_[i] == nullptr) return Status::kNoKernel;
      const FusedInstruction& next = program_.instructions[i];
      const FusedOp op = fused_op(next.code);
      Tensor in[3];
      for (int k = 0; k < op.operands; ++k) in[k] = tiles_[next.operands[k]].tensor;
      Tensor& to = tiles_[program_.first_register() + next.to].tensor;
      to.dtype = op.out;
      Context alone;
      LITE_TRY(kernels_[i]->run(in, op.operands, &to, next.attrs, alone));
    }
    return Status::kOk;
  }

  Tile& input(int i) { return tiles_[i]; }
  const Tensor& result(int i) const { return tiles_[program_.first_register() + program_.result[i]].tensor; }

 private:
  const FusedProgram& program_;
  const Kernel* kernels_[kMostFusedInstructions];
  Tile tiles_[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters];
};

}  // namespace lite
