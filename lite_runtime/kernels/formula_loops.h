#pragma once

#include <algorithm>

#include "kernels/formula.h"

// The loops of a piece of a formula: down to rows of neighbouring lanes, which a kernel computes.

namespace lite {

constexpr int kFormulaTile = 512;  // lanes at a time
constexpr int64_t kShortRow = 128, kManyItems = 8;

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
//
// The last loops are one where their elements lie behind each other as those of one would: its turns are the lanes.
class FormulaLoops {
 public:
  FormulaLoops(const FormulaProgram& program, const FormulaPiece& piece, const FormulaForms& forms,
               const int64_t* sizes)
      : piece_(piece), forms_(forms), sizes_(program.sizes), last_(std::max(piece.loops - 1, 0)), merged_(last_) {
    std::copy_n(sizes, sizes_, columns_);
    FormulaRow guard = piece.first_guard;
    for (int i = 0; i < piece.guards; ++i, guard = {guard.end()}) {
      if (guard.at(columns_) < 0) return;
    }
    for (int loop = 0; loop < piece.loops; ++loop) {
      is_free_[loop] = piece.bounds[loop].are_free_of(sizes_);
      if (is_free_[loop]) piece.bounds[loop].at(columns_, &first_[loop], &count_[loop]);
      count_[loop] = is_free_[loop] ? std::max<int64_t>(count_[loop] - first_[loop] + 1, 0) : 0;
    }
    merge();
    are_rows_alike_ = merged_ > 0 && piece.bounds[merged_].are_free_of(sizes_ + merged_ - 1);
    items_ = 1;
    for (; fixed_ < merged_ && piece.gives_place(fixed_) && is_free_[fixed_]; ++fixed_) items_ *= count_[fixed_];
    keep_rows_together();
    if (piece.gives_place(last_) && piece.loops > 0 && is_free_[merged_]) {
      tiles_ = (count_[merged_] * inner_ + kFormulaTile - 1) / kFormulaTile;
      items_ *= tiles_;
    }
  }

  int64_t items() const { return items_; }
  // Whether the loops, none of which is summed over, go to each of so many places; to none twice they go anyway.
  bool meets_each(int64_t places) const {
    int64_t points = items_ > 0 ? 1 : 0;
    for (int loop = 0; loop < piece_.loops; ++loop) {
      if (!is_free_[loop] || !piece_.gives_place(loop)) return false;
      points *= count_[loop];
    }
    return points == places;
  }
  // About how many points an item has: what its constant bounds say.
  int64_t turns() const {
    int64_t turns = tiles_ > 0 ? std::min<int64_t>(kFormulaTile, count_[merged_] * inner_) : inner_;
    for (int loop = fixed_; loop < piece_.loops && loop < merged_ + (tiles_ > 0 ? 0 : 1); ++loop) {
      int64_t first, last;
      piece_.bounds[loop].at(columns_, &first, &last);
      turns = std::min<int64_t>(turns * std::max<int64_t>(last - first + 1, 1), 1 << 30);
    }
    return turns;
  }

  // rows(offsets of the loads and the result, lanes, rows, the loop that leads from row to row) for all rows of one
  // item. False: a row leaves its tensor.
  template <typename Rows>
  bool run(int64_t item, const Rows& rows) {
    if (tiles_ > 0) {
      tile_ = item % tiles_ * kFormulaTile;
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
    if (piece_.loops == 0) return lanes(at, 1, 1, 0, rows);
    return descend(fixed_, at, rows);
  }

 private:
  // Finds the loops that are one.
  void merge() {
    for (; merged_ > 0 && is_free_[merged_]; --merged_) {
      if (piece_.gives_place(merged_) != piece_.gives_place(merged_ - 1)) return;
      for (int i = 0; i <= piece_.loads; ++i) {
        const int64_t* steps = forms_.form[i].steps;
        if (steps[merged_ - 1] != steps[merged_] * count_[merged_]) return;
      }
      inner_ *= count_[merged_];
    }
  }

  // Rows that are short, or sums, are many to an item where there are many items.
  void keep_rows_together() {
    const int loop = merged_ - 1;
    if (fixed_ <= loop || !are_rows_alike_ || count_[loop] == 0 || items_ / count_[loop] < kManyItems) return;
    if (piece_.gives_place(last_) && count_[merged_] * inner_ >= kShortRow) return;
    fixed_ = loop;
    items_ /= count_[loop];
  }

  void bounds_of(int loop, int64_t* first, int64_t* last) const {
    if (!is_free_[loop]) return piece_.bounds[loop].at(columns_, first, last);
    *first = first_[loop];
    *last = first_[loop] + count_[loop] - 1;
  }

  template <typename Rows>
  bool descend(int loop, const int64_t* from, const Rows& rows) {
    int64_t first, last, at[kMostFusedInputs + 1];
    bounds_of(loop, &first, &last);
    if (first > last) return true;
    move(from, loop, first, at);
    if (loop == merged_) return merged(at, (last - first + 1) * inner_, 1, loop, rows);
    if (loop == merged_ - 1 && are_rows_alike_) {
      int64_t lane, last_lane;
      columns_[sizes_ + loop] = first;
      bounds_of(merged_, &lane, &last_lane);
      move(at, merged_, lane, at);
      return merged(at, (last_lane - lane + 1) * inner_, last - first + 1, loop, rows);
    }
    for (int64_t& now = columns_[sizes_ + loop] = first; now <= last; ++now) {
      if (!descend(loop + 1, at, rows)) return false;
      move(at, loop, 1, at);
    }
    return true;
  }

  // The lanes of the merged loops, of which `at` has the outermost.
  template <typename Rows>
  bool merged(int64_t* at, int64_t n, int64_t turns, int loop, const Rows& rows) {
    for (int inner = merged_ + 1; inner <= last_; ++inner) move(at, inner, first_[inner], at);
    if (tiles_ > 0) {
      move(at, last_, tile_, at);
      n = std::min<int64_t>(n - tile_, kFormulaTile);
    }
    return lanes(at, n, turns, loop, rows);
  }

  template <typename Rows>
  bool lanes(int64_t* at, int64_t n, int64_t turns, int loop, const Rows& rows) {
    if (n <= 0) return true;
    int64_t end[kMostFusedInputs + 1];
    move(at, loop, turns - 1, end);
    if (!in_tensors(at, n) || !in_tensors(end, n)) return false;
    for (; n > kFormulaTile; n -= kFormulaTile) {
      rows(at, kFormulaTile, turns, loop);
      move(at, last_, kFormulaTile, at);
    }
    rows(at, static_cast<int>(n), turns, loop);
    return true;
  }

  void move(const int64_t* from, int loop, int64_t turns, int64_t* to) const {
    for (int i = 0; i <= piece_.loads; ++i) to[i] = from[i] + forms_.form[i].steps[loop] * turns;
  }
  // Whether n lanes from here on lie in their tensors: forms are affine, so their ends tell.
  bool in_tensors(const int64_t* at, int64_t n) const {
    for (int i = 0; i <= piece_.loads; ++i) {
      if (forms_.elements[i] < 0) continue;
      const int64_t end = at[i] + forms_.form[i].steps[last_] * (n - 1);
      if (std::min(at[i], end) < 0 || std::max(at[i], end) >= forms_.elements[i]) return false;
    }
    return true;
  }

  const FormulaPiece& piece_;
  const FormulaForms& forms_;
  int sizes_, last_, merged_;    // the lanes are the turns of loops [merged_, last_]
  int64_t inner_ = 1;            // turns of those but the first
  bool are_rows_alike_ = false;  // the same lanes at every turn of the loop around them
  int fixed_ = 0;                // loops whose numbers an item has
  int64_t items_ = 0, tiles_ = 0, tile_ = 0;
  int64_t columns_[kMostFormulaColumns] = {};
  bool is_free_[kMostFormulaLoops] = {};  // of the numbers of other loops; then:
  int64_t first_[kMostFormulaLoops] = {}, count_[kMostFormulaLoops] = {};
};

}  // namespace lite
