#pragma once

#include <algorithm>

#include "kernels/formula.h"

// The loops of a piece of a formula: down to rows of neighbouring lanes, which a kernel computes.

namespace lite {

constexpr int kFormulaTile = 512;  // lanes at a time

// What a row needs to know of a piece. Form number `loads` is the result's.
struct FormulaForms {
  FormulaForm form[kMostFusedInputs + 1];
  int64_t elements[kMostFusedInputs + 1];  // of the tensor; -1: none, the form is a number

  void set(const FormulaProgram& program, const FormulaPiece& piece, const Call<formula_attrs>& call,
           const int64_t* sizes) {
    for (int i = 0; i < piece.loads; ++i) {
      const FormulaLoad& load = piece.load[i];
      const Ints one{1, {1}};
      form[i].set(load.rows, load.input < 0 ? one : call.in[load.input].shape, sizes, program.sizes);
      elements[i] = load.input < 0 ? -1 : call.in[load.input].elements();
    }
    form[piece.loads].set(piece.out, call.y().shape, sizes, program.sizes);
    elements[piece.loads] = call.y().elements();
  }
};

// Work in items that write to different places: the numbers of the outermost loops, and tiles of the lanes.
class FormulaLoops {
 public:
  FormulaLoops(const FormulaProgram& program, const FormulaPiece& piece, const FormulaForms& forms,
               const int64_t* sizes)
      : piece_(piece), forms_(forms), sizes_(program.sizes) {
    std::copy_n(sizes, sizes_, columns_);
    FormulaRow guard = piece.first_guard;
    for (int i = 0; i < piece.guards; ++i, guard = {guard.end()}) {
      if (guard.at(columns_) < 0) return;
    }
    items_ = 1;
    while (fixed_ < piece.outer && piece.bounds[fixed_].are_free_of(sizes_)) {
      take(fixed_);
      ++fixed_;
    }
    const int lane = piece.loops - 1;
    if (piece.lanes_place && piece.bounds[lane].are_free_of(sizes_)) {
      take(lane);
      tiles_ = (count_[lane] + kFormulaTile - 1) / kFormulaTile;
      items_ = count_[lane] > 0 ? items_ / count_[lane] * tiles_ : 0;
    }
  }

  int64_t items() const { return items_; }
  // About how many points an item has: what its constant bounds say.
  int64_t turns() const {
    int64_t turns = tiles_ > 0 ? std::min<int64_t>(kFormulaTile, count_[piece_.loops - 1]) : 1;
    for (int loop = fixed_; loop < piece_.loops - static_cast<int>(tiles_ > 0); ++loop) {
      int64_t first, last;
      piece_.bounds[loop].at(columns_, &first, &last);
      turns = std::min<int64_t>(turns * std::max<int64_t>(last - first + 1, 1), 1 << 30);
    }
    return turns;
  }

  // row(offsets of the loads and the result, lanes) for each row of one item. False: a row leaves its tensor.
  template <typename Row>
  bool run(int64_t item, const Row& row) {
    if (tiles_ > 0) {
      tile_ = first_[piece_.loops - 1] + item % tiles_ * kFormulaTile;
      item /= tiles_;
    }
    for (int loop = fixed_ - 1; loop >= 0; --loop) {
      columns_[sizes_ + loop] = first_[loop] + item % count_[loop];
      item /= count_[loop];
    }
    int64_t at[kMostFusedInputs + 1];
    for (int i = 0; i <= piece_.loads; ++i) {
      at[i] = forms_.form[i].base;
      for (int loop = 0; loop < fixed_; ++loop) at[i] += forms_.form[i].steps[loop] * columns_[sizes_ + loop];
    }
    return descend(fixed_, at, row);
  }

 private:
  void take(int loop) {
    int64_t last;
    piece_.bounds[loop].at(columns_, &first_[loop], &last);
    count_[loop] = std::max<int64_t>(last - first_[loop] + 1, 0);
    items_ *= count_[loop];
  }

  template <typename Row>
  bool descend(int loop, const int64_t* from, const Row& row) {
    if (loop == piece_.loops) return in_tensors(from, 1) && row(from, 1);
    int64_t first, last, at[kMostFusedInputs + 1];
    piece_.bounds[loop].at(columns_, &first, &last);
    const bool is_lane = loop == piece_.loops - 1;
    if (is_lane && tiles_ > 0) {
      first = std::max(first, tile_);
      last = std::min(last, tile_ + kFormulaTile - 1);
    }
    if (first > last) return true;
    move(from, loop, first, at);
    if (is_lane) return lanes(at, last - first + 1, row);
    for (int64_t& now = columns_[sizes_ + loop] = first; now <= last; ++now) {
      if (!descend(loop + 1, at, row)) return false;
      move(at, loop, 1, at);
    }
    return true;
  }

  template <typename Row>
  bool lanes(int64_t* at, int64_t n, const Row& row) {
    if (!in_tensors(at, n)) return false;
    for (; n > kFormulaTile; n -= kFormulaTile) {
      if (!row(at, kFormulaTile)) return false;
      move(at, piece_.loops - 1, kFormulaTile, at);
    }
    return row(at, static_cast<int>(n));
  }

  void move(const int64_t* from, int loop, int64_t turns, int64_t* to) const {
    for (int i = 0; i <= piece_.loads; ++i) to[i] = from[i] + forms_.form[i].steps[loop] * turns;
  }
  // Whether n lanes from here on lie in their tensors: forms are affine, so their ends tell.
  bool in_tensors(const int64_t* at, int64_t n) const {
    const int lane = std::max(piece_.loops - 1, 0);
    for (int i = 0; i <= piece_.loads; ++i) {
      if (forms_.elements[i] < 0) continue;
      const int64_t end = at[i] + forms_.form[i].steps[lane] * (n - 1);
      if (std::min(at[i], end) < 0 || std::max(at[i], end) >= forms_.elements[i]) return false;
    }
    return true;
  }

  const FormulaPiece& piece_;
  const FormulaForms& forms_;
  int sizes_;
  int fixed_ = 0;  // loops whose numbers an item has
  int64_t items_ = 0, tiles_ = 0, tile_ = 0;
  int64_t columns_[kMostFormulaColumns] = {};
  int64_t first_[kMostFormulaLoops] = {}, count_[kMostFormulaLoops] = {};
};

}  // namespace lite
