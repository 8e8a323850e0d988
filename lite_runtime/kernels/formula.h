#pragma once

#include <cstdint>

#include "core/kernel.h"
#include "kernels/fused.h"

// Programs of formula: what their words mean (ir/formula/program.py), whether they are sound, and where their loops
// lead.

namespace lite {

constexpr int kMostFormulaSizes = 8, kMostFormulaLoops = 14, kMostFormulaPieces = 256, kMostFormulaBounds = 64,
              kMostFormulaColumns = kMostFormulaSizes + kMostFormulaLoops;

enum class FormulaKind { sum, max, min };

// What an element is that nothing reaches.
inline float start_of(FormulaKind kind) {
  constexpr float kInfinity = __builtin_huge_valf();
  return kind == FormulaKind::sum ? 0.0f : kind == FormulaKind::max ? -kInfinity : kInfinity;
}

// An affine form of columns: sizes, then loops from the outside in.
struct FormulaRow {
  const int32_t* words = nullptr;  // constant, terms, for each a column and a factor

  int terms() const { return words[1]; }
  int column(int i) const { return words[2 + 2 * i]; }
  int64_t factor(int i) const { return words[3 + 2 * i]; }
  const int32_t* end() const { return words + 2 + 2 * terms(); }
  int64_t at(const int64_t* columns) const {
    int64_t value = words[0];
    for (int i = 0; i < terms(); ++i) value += factor(i) * columns[column(i)];
    return value;
  }
};

// Bounds of one loop: the largest of the lower ones and the smallest of the upper ones.
struct FormulaBounds {
  const int32_t* words = nullptr;  // lower bounds, upper bounds, for each a divisor and a row

  // The first and the last number of the loop.
  void at(const int64_t* columns, int64_t* first, int64_t* last) const;
  // Whether they name no column from `first` on.
  bool are_free_of(int first) const;
};

struct FormulaLoad {
  int input = -1;  // none: the first row is the value
  int rank = 0;
  FormulaRow rows[kMaxRank];
};

// One nest of loops, as its words lie in a program.
struct FormulaPiece {
  int loops = 0;
  uint32_t places = 0;  // a bit for each loop that gives the place; the others are summed over
  int guards = 0, loads = 0;
  FormulaRow first_guard;
  FormulaBounds bounds[kMostFormulaLoops];
  FormulaRow out[kMaxRank];
  FormulaLoad load[kMostFusedInputs];
  bool has_body = false;  // else the value is the load's
  FusedProgram body;

  bool gives_place(int loop) const { return (places >> loop & 1) != 0; }
};

// Only `read` looks at words that may be anything.
class FormulaProgram {
 public:
  FormulaKind kind = FormulaKind::sum;
  int sizes = 0, rank = 0, pieces = 0;
  FormulaRow shape[kMaxRank];

  // False: these words are no program on `inputs` inputs.
  bool read(const WordList& words, int inputs);
  // Whether shapes and sizes fit, no loop leads beyond 2^31, and the work is within what the tensors' sizes explain.
  bool fits(const Call<formula_attrs>& call) const;
  // The piece whose words start at `at`; moves on to the next one's. Start with `first`.
  void piece(const int32_t** at, FormulaPiece* piece) const;
  const int32_t* first() const { return first_; }

 private:
  const int32_t *first_ = nullptr, *end_ = nullptr;
};

// Where the elements of a tensor lie along a piece's loops.
struct FormulaForm {
  int64_t base = 0;                       // with the sizes in it
  int64_t steps[kMostFormulaLoops] = {};  // elements a turn of each loop

  void set(const FormulaRow* rows, const Ints& shape, const int64_t* sizes, int count);
};

}  // namespace lite
