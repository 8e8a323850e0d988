#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/formula.h"
#include "kernels/formula_loops.h"
#include "kernels/kernels.h"
#include "kernels/vector/math.h"
#include "kernels/vector/reduce.h"
#include "kernels/vector/share.h"

// Programs of formula for any instruction set: a row of lanes at a time, its elements where they lie if they are
// neighbours, else in a tile.

namespace lite {

// What one thread works on.
template <class Isa>
class FormulaRows {
 public:
  using V = typename Isa::V;

  FormulaRows(const FormulaPiece& piece, const FormulaForms& forms, FormulaKind kind, const Call<formula_attrs>& call)
      : piece_(piece), kind_(kind), y_(call.y().f32()) {
    const int lane = std::max(piece.loops - 1, 0);
    for (int i = 0; i <= piece.loads; ++i) step_[i] = forms.form[i].steps[lane];
    for (int i = 0; i < piece.loads; ++i) {
      const int input = piece.load[i].input;
      from_[i] = input < 0 ? nullptr : call.in[input].f32();
    }
    const FusedProgram& body = piece.body;
    for (int i = 0; i < body.constants; ++i) {
      float value;
      std::memcpy(&value, body.constant + i, sizeof value);
      std::fill_n(tiles_[body.inputs + i], kFormulaTile, value);
    }
    for (int i = 0; i < std::max(body.operands(), 1); ++i) at_[i] = tiles_[i];
    is_product_ = piece.has_body && body.count == 1 && body.instructions[0].code == code::mul && kind == FormulaKind::sum &&
                  piece.loads == 2 && is_load(body, 0) && is_load(body, 1) && from_[0] != nullptr && from_[1] != nullptr;
  }

  // run(instruction, tiles, n): one instruction of the body on n lanes
  template <typename Run>
  void row(const int64_t* at, int n, const Run& run) {
    float* y = y_ + at[piece_.loads];
    const int64_t step = step_[piece_.loads];
    if (is_product_ && products(at, y, step, n)) return;
    for (int i = 0; i < piece_.loads; ++i) ready(i, at[i], n);
    const float* values = at_[0];
    if (piece_.has_body) {
      for (int i = 0; i < piece_.body.count; ++i) run(piece_.body.instructions[i], *this, n);
      values = target(piece_.body.result[0]);
    }
    switch (kind_) {
      case FormulaKind::sum:
        return meet<Sum>(values, y, step, n);
      case FormulaKind::max:
        return meet<Max>(values, y, step, n);
      case FormulaKind::min:
        return meet<Min>(values, y, step, n);
    }
  }

  float* operand(int i) { return at_[i]; }
  float* target(int i) { return at_[piece_.body.first_register() + i]; }

 private:
  bool is_load(const FusedProgram& body, int k) const { return body.instructions[0].operands[k] == k; }

  // Makes n elements of a load ready.
  void ready(int i, int64_t offset, int n) {
    float* tile = tiles_[i];
    const int64_t step = step_[i];
    if (from_[i] == nullptr) {
      at_[i] = tile;
      for (int k = 0; k < n; ++k) tile[k] = static_cast<float>(offset + k * step);
    } else if (step == 1 || n == 1) {
      at_[i] = const_cast<float*>(from_[i] + offset);  // operands are only read
    } else if (step == 0) {
      at_[i] = tile;
      fill(tile, from_[i][offset], n);
    } else {
      at_[i] = tile;
      const float* from = from_[i] + offset;
      for (int k = 0; k < n; ++k) tile[k] = from[k * step];
    }
  }
  static void fill(float* tile, float value, int n) {
    over<Isa>(n, [=](int64_t k, int lanes) { Isa::store(tile + k, Isa::all(value), lanes); });
  }

  template <class Op>
  static void meet(const float* values, float* y, int64_t step, int n) {
    if (step == 1) {
      over<Isa>(n, [=](int64_t k, int lanes) {
        Isa::store(y + k, Op::template step<Isa>(Isa::load(y + k, lanes), Isa::load(values + k, lanes)), lanes);
      });
    } else if (step != 0 || n < 2 * Isa::kLanes) {
      for (int k = 0; k < n; ++k) {
        float* to = y + k * step;
        *to = static_cast<float>(Op::step(static_cast<double>(*to), static_cast<double>(values[k])));
      }
    } else {
      V all = Isa::load(values);
      int k = Isa::kLanes;
      for (; k + Isa::kLanes <= n; k += Isa::kLanes) all = Op::template step<Isa>(all, Isa::load(values + k));
      float each[Isa::kLanes];
      Isa::store(each, all);
      double total = *y;
      for (int i = 0; i < Isa::kLanes; ++i) total = Op::step(total, static_cast<double>(each[i]));
      for (; k < n; ++k) total = Op::step(total, static_cast<double>(values[k]));
      *y = static_cast<float>(total);
    }
  }

  // Sums of products of two elements, without tiles; false where they lie otherwise.
  bool products(const int64_t* at, float* y, int64_t step, int n) {
    const float *a = from_[0] + at[0], *b = from_[1] + at[1];
    int64_t step_a = step_[0], step_b = step_[1];
    if (step_b == 0) {
      std::swap(a, b);
      std::swap(step_a, step_b);
    }
    if (step_b != 1 || step_a < 0 || step_a > 1) return false;
    if (step == 1 && step_a == 0) {
      const V factor = Isa::all(*a);
      over_many<Isa>(n, [=](int64_t k, int lanes) {
        Isa::store(y + k, Isa::fma(factor, Isa::load(b + k, lanes), Isa::load(y + k, lanes)), lanes);
      });
      return true;
    }
    if (step == 1) {
      over_many<Isa>(n, [=](int64_t k, int lanes) {
        Isa::store(y + k, Isa::fma(Isa::load(a + k, lanes), Isa::load(b + k, lanes), Isa::load(y + k, lanes)), lanes);
      });
      return true;
    }
    if (step != 0 || step_a != 1) return false;
    V sums[4] = {Isa::all(0), Isa::all(0), Isa::all(0), Isa::all(0)};
    int k = 0;
    for (; k + 4 * Isa::kLanes <= n; k += 4 * Isa::kLanes) {
      for (int i = 0; i < 4; ++i) {
        sums[i] = Isa::fma(Isa::load(a + k + i * Isa::kLanes), Isa::load(b + k + i * Isa::kLanes), sums[i]);
      }
    }
    over<Isa>(n - k, [&](int64_t i, int lanes) {
      sums[0] = Isa::fma(Isa::load(a + k + i, lanes), Isa::load(b + k + i, lanes), sums[0]);
    });
    *y += Isa::sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    return true;
  }

  const FormulaPiece& piece_;
  FormulaKind kind_;
  float* y_;
  bool is_product_ = false;
  const float* from_[kMostFusedInputs];  // null: the form is a number
  int64_t step_[kMostFusedInputs + 1];
  float* at_[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters];
  alignas(64) float tiles_[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters][kFormulaTile];
};

// run(instruction, rows, n) for every instruction on every row
template <class Isa, typename Run>
Status run_formula(const Call<formula_attrs>& call, const Run& run) {
  FormulaProgram program;
  if (!program.read(call.attrs.program, call.inputs)) return Status::kBadArgument;
  constexpr float kInfinity = __builtin_huge_valf();
  const float start[] = {0.0f, -kInfinity, kInfinity};
  std::fill_n(call.y().f32(), call.y().elements(), start[static_cast<int>(program.kind)]);
  int64_t sizes[kMostFormulaSizes];
  std::copy_n(call.attrs.sizes.begin(), program.sizes, sizes);
  const int32_t* at = program.first();
  for (int i = 0; i < program.pieces; ++i) {
    FormulaPiece piece;
    program.piece(&at, &piece);
    FormulaForms forms;
    forms.set(program, piece, call, sizes);
    const FormulaLoops whole(program, piece, forms, sizes);
    const int64_t items = whole.items();
    const int64_t cost = whole.turns() * (1 + piece.loads + piece.body.count) / 8;
    std::atomic<bool> good{true};
    parallel_for(call.context.pool, items, share(items, cost), [&](int64_t begin, int64_t end) {
      FormulaLoops loops = whole;
      FormulaRows<Isa> rows(piece, forms, program.kind, call);
      const auto row = [&](const int64_t* from, int64_t n) {
        rows.row(from, static_cast<int>(n), run);
        return true;
      };
      for (int64_t item = begin; item < end && good; ++item) {
        if (!loops.run(item, row)) good = false;
      }
    });
    if (!good) return Status::kBadFile;
  }
  return Status::kOk;
}

}  // namespace lite
