#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/formula.h"
#include "kernels/formula_loops.h"
#include "kernels/kernels.h"
#include "kernels/vector/fused.h"
#include "kernels/vector/math.h"
#include "kernels/vector/reduce.h"
#include "kernels/vector/share.h"

// Programs of formula for any instruction set: a row of lanes at a time, its elements where they lie if they are
// neighbours, else in a tile.

namespace lite {

// What one thread works on.
template <class Isa>
class FormulaRows : public FusedOperands {
 public:
  using V = typename Isa::V;

  // `is_only`: each element of the result gets one value.
  FormulaRows(const FormulaPiece& piece, const FormulaForms& forms, FormulaKind kind, bool is_only,
              const Call<formula_attrs>& call)
      : piece_(piece), forms_(forms), kind_(kind), is_only_(is_only), y_(call.y().f32()) {
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
    for (int i = 0; i < std::max(body.operands(), 1); ++i) elements[i] = tiles_[i];
    first_register = body.first_register();
    is_product_ = piece.has_body && body.count == 1 && body.instructions[0].code == code::mul &&
                  kind == FormulaKind::sum && !is_only && piece.loads == 2 && is_load(body, 0) && is_load(body, 1) &&
                  from_[0] != nullptr && from_[1] != nullptr;
  }

  // So many rows of n lanes, `loop` leads from one to the next; short ones many at a time.
  void rows(const int64_t* from, int n, int64_t turns, int loop) {
    int64_t at[kMostFusedInputs + 1];
    for (int i = 0; i <= piece_.loads; ++i) leap_[i] = forms_.form[i].steps[loop];
    if (is_product_ && products(from, n, turns)) return;
    std::copy_n(from, piece_.loads + 1, at);
    for (int64_t some; turns > 0; turns -= some) {
      some = std::min<int64_t>(turns, kFormulaTile / n);
      compute(at, n, static_cast<int>(some));
      for (int i = 0; i <= piece_.loads; ++i) at[i] += some * leap_[i];
    }
  }

 private:
  bool is_load(const FusedProgram& body, int k) const { return body.instructions[0].operands[k] == k; }

  void compute(const int64_t* at, int n, int rows) {
    for (int i = 0; i < piece_.loads; ++i) ready(i, at[i], n, rows);
    const float* values = elements[0];
    if (piece_.has_body) {
      for (int i = 0; i < piece_.body.count; ++i) run_instruction<Isa>(piece_.body.instructions[i], *this, n * rows);
      values = elements[first_register + piece_.body.result[0]];
    }
    float* y = y_ + at[piece_.loads];
    for (int i = 0; i < rows; ++i, values += n, y += leap_[piece_.loads]) take(values, y, n);
  }
  // The values of a row into the result.
  void take(const float* values, float* y, int n) const {
    const int64_t step = step_[piece_.loads];
    if (is_only_) return put(values, y, step, n);
    switch (kind_) {
      case FormulaKind::sum:
        return meet<Sum>(values, y, step, n);
      case FormulaKind::max:
        return meet<Max>(values, y, step, n);
      case FormulaKind::min:
        return meet<Min>(values, y, step, n);
    }
  }

  // Makes rows of n elements of a load ready, one behind the other.
  void ready(int i, int64_t offset, int n, int rows) {
    const bool is_dense = step_[i] == 1 && (rows == 1 || leap_[i] == n);
    if (is_dense && from_[i] != nullptr) {
      elements[i] = const_cast<float*>(from_[i] + offset);  // operands are only read
      return;
    }
    elements[i] = tiles_[i];
    for (int row = 0; row < rows; ++row) gather(i, offset + row * leap_[i], n, tiles_[i] + row * n);
  }
  void gather(int i, int64_t offset, int n, float* tile) const {
    const int64_t step = step_[i];
    if (from_[i] == nullptr) {
      for (int k = 0; k < n; ++k) tile[k] = static_cast<float>(offset + k * step);
      return;
    }
    const float* from = from_[i] + offset;
    if (step == 0) {
      fill(tile, *from, n);
    } else if (step == 1) {
      over<Isa>(n, [=](int64_t k, int lanes) { Isa::store(tile + k, Isa::load(from + k, lanes), lanes); });
    } else {
      for (int k = 0; k < n; ++k) tile[k] = from[k * step];
    }
  }
  static void fill(float* tile, float value, int n) {
    over<Isa>(n, [=](int64_t k, int lanes) { Isa::store(tile + k, Isa::all(value), lanes); });
  }

  // y = the values, where nothing else writes.
  static void put(const float* values, float* y, int64_t step, int n) {
    if (step == 1) {
      std::memcpy(y, values, static_cast<size_t>(n) * sizeof *y);
    } else {
      for (int k = 0; k < n; ++k) y[k * step] = values[k];
    }
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
      V part[4];  // side by side
      const int parts = std::min(4, n / Isa::kLanes);
      for (int i = 0; i < parts; ++i) part[i] = Isa::load(values + i * Isa::kLanes);
      int k = parts * Isa::kLanes;
      for (; k + 4 * Isa::kLanes <= n; k += 4 * Isa::kLanes) {
        for (int i = 0; i < 4; ++i) part[i] = Op::template step<Isa>(part[i], Isa::load(values + k + i * Isa::kLanes));
      }
      for (; k + Isa::kLanes <= n; k += Isa::kLanes) part[0] = Op::template step<Isa>(part[0], Isa::load(values + k));
      V all = part[0];
      for (int i = 1; i < parts; ++i) all = Op::template step<Isa>(all, part[i]);
      float each[Isa::kLanes];
      Isa::store(each, all);
      double total = *y;
      for (int i = 0; i < Isa::kLanes; ++i) total = Op::step(total, static_cast<double>(each[i]));
      for (; k < n; ++k) total = Op::step(total, static_cast<double>(values[k]));
      *y = static_cast<float>(total);
    }
  }

  // Sums of products of two elements, without tiles; false where they lie otherwise.
  bool products(const int64_t* at, int n, int64_t turns) const {
    int a = 0, b = 1;
    if (step_[b] == 0) std::swap(a, b);
    if (step_[b] != 1 || step_[a] < 0 || step_[a] > 1) return false;
    const Operand x{from_[a] + at[a], leap_[a]}, z{from_[b] + at[b], leap_[b]};
    float* y = y_ + at[piece_.loads];
    const int64_t step = step_[piece_.loads], leap_y = leap_[piece_.loads];
    if (step == 1 && leap_y == 0) {
      step_[a] == 0 ? weighted<true>(x, z, y, n, turns) : weighted<false>(x, z, y, n, turns);
    } else if (step == 1) {
      for (int64_t i = 0; i < turns; ++i) {
        const Operand xi{x.from + i * x.leap, 0}, zi{z.from + i * z.leap, 0};
        step_[a] == 0 ? weighted<true>(xi, zi, y + i * leap_y, n, 1) : weighted<false>(xi, zi, y + i * leap_y, n, 1);
      }
    } else if (step == 0 && step_[a] == 1) {
      dots(x, z, y, leap_y, n, turns);
    } else {
      return false;
    }
    return true;
  }
  struct Operand {
    const float* from;
    int64_t leap;  // to the next row
  };

  // y[k] += the sum over rows of x z[k], or of x[k] z[k]
  template <bool kOne>
  static void weighted(Operand x, Operand z, float* y, int n, int64_t turns) {
    int k = 0;
    for (; k + 4 * Isa::kLanes <= n; k += 4 * Isa::kLanes) weighted_vectors<kOne, 4>(x, z, y, k, Isa::kLanes, turns);
    for (; k < n; k += Isa::kLanes) weighted_vectors<kOne, 1>(x, z, y, k, std::min(Isa::kLanes, n - k), turns);
  }
  template <bool kOne, int kVectors>
  static void weighted_vectors(Operand x, Operand z, float* y, int k, int lanes, int64_t turns) {
    V sums[kVectors];
    for (int v = 0; v < kVectors; ++v) sums[v] = Isa::load(y + k + v * Isa::kLanes, lanes);
    for (int64_t i = 0; i < turns; ++i, x.from += x.leap, z.from += z.leap) {
      const V factor = Isa::all(kOne ? *x.from : 0.0f);
      for (int v = 0; v < kVectors; ++v) {
        const int at = k + v * Isa::kLanes;
        sums[v] = Isa::fma(kOne ? factor : Isa::load(x.from + at, lanes), Isa::load(z.from + at, lanes), sums[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) Isa::store(y + k + v * Isa::kLanes, sums[v], lanes);
  }

  // y[i leap] += the sum of x[k] z[k] of row i
  static void dots(Operand x, Operand z, float* y, int64_t leap, int n, int64_t turns) {
    if (z.leap == 0) std::swap(x, z);
    int64_t i = 0;
    if (x.leap == 0) {  // four rows share x
      for (; i + 4 <= turns; i += 4) dot_rows<4>(x.from, {z.from + i * z.leap, z.leap}, y + i * leap, leap, n);
    }
    for (; i < turns; ++i) dot_rows<1>(x.from + i * x.leap, {z.from + i * z.leap, 0}, y + i * leap, leap, n);
  }
  template <int kRows>
  static void dot_rows(const float* x, Operand z, float* y, int64_t leap, int n) {
    constexpr int kChains = 4 / kRows;  // sums of one row that run side by side
    V sums[kRows][kChains] = {};
    int k = 0;
    for (; k + kChains * Isa::kLanes <= n; k += kChains * Isa::kLanes) {
      for (int c = 0; c < kChains; ++c) {
        const V xk = Isa::load(x + k + c * Isa::kLanes);
        for (int r = 0; r < kRows; ++r) {
          sums[r][c] = Isa::fma(xk, Isa::load(z.from + r * z.leap + k + c * Isa::kLanes), sums[r][c]);
        }
      }
    }
    for (; k < n; k += Isa::kLanes) {
      const int lanes = std::min(Isa::kLanes, n - k);
      const V xk = Isa::load(x + k, lanes);
      for (int r = 0; r < kRows; ++r) sums[r][0] = Isa::fma(xk, Isa::load(z.from + r * z.leap + k, lanes), sums[r][0]);
    }
    for (int r = 0; r < kRows; ++r) {
      V sum = sums[r][0];
      for (int c = 1; c < kChains; ++c) sum = sum + sums[r][c];
      y[r * leap] += Isa::sum(sum);
    }
  }

  const FormulaPiece& piece_;
  const FormulaForms& forms_;
  FormulaKind kind_;
  bool is_only_;
  float* y_;
  bool is_product_ = false;
  const float* from_[kMostFusedInputs];                              // null: the form is a number
  int64_t step_[kMostFusedInputs + 1], leap_[kMostFusedInputs + 1];  // from lane to lane, from row to row
  alignas(64) float tiles_[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters][kFormulaTile];
};

template <class Isa>
Status run_formula(const Call<formula_attrs>& call) {
  FormulaProgram program;
  if (!program.read(call.attrs.program, call.inputs)) return Status::kBadArgument;
  int64_t sizes[kMostFormulaSizes];
  std::copy_n(call.attrs.sizes.begin(), program.sizes, sizes);
  const int32_t* at = program.first();
  if (program.pieces == 0) std::fill_n(call.y().f32(), call.y().elements(), start_of(program.kind));
  for (int i = 0; i < program.pieces; ++i) {
    FormulaPiece piece;
    program.piece(&at, &piece);
    FormulaForms forms;
    forms.set(program, piece, call, sizes);
    const FormulaLoops whole(program, piece, forms, sizes);
    const bool is_only = program.pieces == 1 && whole.meets_each(call.y().elements());
    if (i == 0 && !is_only) std::fill_n(call.y().f32(), call.y().elements(), start_of(program.kind));
    const int64_t items = whole.items();
    const int64_t cost = whole.turns() * (1 + piece.loads + piece.body.count) / 8;
    std::atomic<bool> good{true};
    parallel_for(call.context.pool, items, share(items, cost), [&](int64_t begin, int64_t end) {
      FormulaLoops loops = whole;
      FormulaRows<Isa> mine(piece, forms, program.kind, is_only, call);
      const auto rows = [&](const int64_t* from, int n, int64_t turns, int loop) { mine.rows(from, n, turns, loop); };
      for (int64_t item = begin; item < end && good; ++item) {
        if (!loops.run(item, rows)) good = false;
      }
    });
    if (!good) return Status::kBadFile;
  }
  return Status::kOk;
}

}  // namespace lite
