// What a program of formula may hold.

#include "kernels/formula.h"

#include <algorithm>
#include <cmath>

#include "kernels/ref/loops.h"

namespace lite {
namespace {

constexpr int32_t kLargestFactor = 1 << 20;
constexpr int64_t kLargestNumber = int64_t{1} << 31;  // of a loop
constexpr double kLargestOffset = 0x1p60;
constexpr double kFreeWork = 0x1p20;  // points for an element, for which there need be no other reason
constexpr double kMostWork = 0x1p50;

// Words that may be anything, one after the other.
struct Reader {
  const int32_t* at;
  const int32_t* end;
  bool ok = true;

  int32_t word() {
    if (at == end) ok = false;
    return ok ? *at++ : 0;
  }
  // A word in [least, limit).
  int32_t number(int32_t limit, int32_t least = 0) {
    const int32_t value = word();
    if (value < least || value >= limit) ok = false;
    return ok ? value : 0;
  }
  // A row on the first `columns` columns, each once.
  FormulaRow row(int columns) {
    FormulaRow row{at};
    uint32_t seen = 0;
    word();
    for (int terms = number(columns + 1); terms > 0 && ok; --terms) {
      const uint32_t bit = 1u << number(columns);
      if ((seen & bit) != 0) ok = false;
      seen |= bit;
      number(kLargestFactor + 1, -kLargestFactor);
    }
    return row;
  }
  FormulaBounds bounds(int columns) {
    FormulaBounds bounds{at};
    const int lower = number(kMostFormulaBounds + 1, 1), upper = number(kMostFormulaBounds + 1, 1);
    for (int i = lower + upper; i > 0 && ok; --i) {
      number(kLargestFactor + 1, 1);
      row(columns);
    }
    return bounds;
  }
  FormulaLoad load(int columns, int inputs) {
    FormulaLoad load;
    load.input = number(inputs, -1);
    load.rank = number(kMaxRank + 1);
    if (load.input < 0 && load.rank != 1) ok = false;
    for (int i = 0; i < load.rank && ok; ++i) load.rows[i] = row(columns);
    return load;
  }
};

bool gives_a_number(const FusedProgram& body) {
  Tensor loads[kMostFusedInputs], y;
  for (int i = 0; i < body.inputs; ++i) loads[i].dtype = DType::f32;
  y.dtype = DType::f32;
  return body.results == 1 && body.check_types(loads, &y);
}

// Whether the loops that give the place tell all places apart, and the others do not move it.
bool tells_places(const FormulaPiece& piece, int sizes, int rank) {
  uint32_t left = piece.places;
  uint32_t live[kMaxRank] = {};
  for (int axis = 0; axis < rank; ++axis) {
    for (int i = 0; i < piece.out[axis].terms(); ++i) {
      const int loop = piece.out[axis].column(i) - sizes;
      if (loop >= 0 && piece.out[axis].factor(i) != 0) live[axis] |= 1u << loop;
    }
    if ((live[axis] & ~left) != 0) return false;
  }
  for (uint32_t before = 0; before != left;) {
    before = left;
    for (int axis = 0; axis < rank; ++axis) {
      const uint32_t open = live[axis] & left;
      if ((open & (open - 1)) == 0) left &= ~open;
    }
  }
  return left == 0;
}

void read_piece(Reader& in, int sizes, int rank, int inputs, FormulaPiece* piece) {
  piece->loops = in.number(kMostFormulaLoops + 1);
  piece->places = static_cast<uint32_t>(in.number(1 << piece->loops));
  piece->guards = in.number(kMostFormulaBounds + 1);
  piece->first_guard = {in.at};
  for (int i = 0; i < piece->guards && in.ok; ++i) in.row(sizes);
  const int columns = sizes + piece->loops;
  for (int i = 0; i < piece->loops && in.ok; ++i) piece->bounds[i] = in.bounds(sizes + i);
  for (int i = 0; i < rank && in.ok; ++i) piece->out[i] = in.row(columns);
  piece->loads = in.number(kMostFusedInputs + 1);
  for (int i = 0; i < piece->loads && in.ok; ++i) piece->load[i] = in.load(columns, inputs);
  const int32_t count = in.word();
  if (!in.ok || count < 0 || count > in.end - in.at) {
    in.ok = false;
    return;
  }
  piece->has_body = count > 0;
  if (piece->has_body) {
    in.ok = piece->body.read(in.at, count, piece->loads) && gives_a_number(piece->body);
  } else {
    in.ok = piece->loads == 1;
  }
  in.at += count;
  if (in.ok) in.ok = tells_places(*piece, sizes, rank);
}

// Between which numbers each column lies.
struct Ranges {
  int64_t low[kMostFormulaColumns] = {}, high[kMostFormulaColumns] = {};

  int64_t lowest(const FormulaRow& row) const { return end(row, low, high); }
  int64_t highest(const FormulaRow& row) const { return end(row, high, low); }
  // The largest absolute value of what a form of offsets comes to on its way.
  double reach(const FormulaRow* rows, const Ints& shape) const {
    double sum = 0, stride = 1, largest = 1;
    for (int axis = shape.size - 1; axis >= 0; --axis) {
      double index = std::abs(static_cast<double>(rows[axis].words[0]));
      for (int i = 0; i < rows[axis].terms(); ++i) {
        const int c = rows[axis].column(i);
        const int64_t most = std::max<int64_t>({1, -low[c], high[c]});
        index += std::abs(static_cast<double>(rows[axis].factor(i))) * static_cast<double>(most);
      }
      sum += stride * index;
      stride *= shape[axis];
      largest = std::max(largest, stride);
    }
    return std::max(sum, largest);
  }

 private:
  static int64_t end(const FormulaRow& row, const int64_t* low, const int64_t* high) {
    int64_t value = row.words[0];
    for (int i = 0; i < row.terms(); ++i) {
      value += row.factor(i) * (row.factor(i) > 0 ? low : high)[row.column(i)];
    }
    return value;
  }
};

int64_t floor_of(int64_t a, int64_t b) { return b == 1 ? a : a / b - static_cast<int64_t>(a % b < 0); }

// The ranges of a piece's loops; false where one leads too far. Multiplies the turns they take into `points`.
bool find_ranges(const FormulaPiece& piece, int sizes, Ranges* ranges, double* points) {
  for (int loop = 0; loop < piece.loops; ++loop) {
    const int32_t* words = piece.bounds[loop].words;
    FormulaRow row{words + 3};
    int64_t low = -kLargestNumber - 1, high = kLargestNumber + 1;
    for (int i = 0; i < words[0] + words[1]; ++i) {
      const int64_t divisor = row.words[-1];
      if (i < words[0]) low = std::max(low, -floor_of(-ranges->lowest(row), divisor));
      if (i >= words[0]) high = std::min(high, floor_of(ranges->highest(row), divisor));
      row = {row.end() + 1};
    }
    if (low < -kLargestNumber || high > kLargestNumber) return false;
    ranges->low[sizes + loop] = low;
    ranges->high[sizes + loop] = std::max(low, high);
    *points *= static_cast<double>(std::max<int64_t>(high - low + 1, 1));
  }
  return true;
}

double elements_of(const Ints& shape) {
  double n = 1;
  for (int size : shape) n *= std::max(size, 1);
  return n;
}

}  // namespace

void FormulaBounds::at(const int64_t* columns, int64_t* first, int64_t* last) const {
  FormulaRow row{words + 3};
  for (int i = 0; i < words[0]; ++i, row = {row.end() + 1}) {
    const int64_t value = -floor_of(-row.at(columns), row.words[-1]);
    *first = i == 0 ? value : std::max(*first, value);
  }
  for (int i = 0; i < words[1]; ++i, row = {row.end() + 1}) {
    const int64_t value = floor_of(row.at(columns), row.words[-1]);
    *last = i == 0 ? value : std::min(*last, value);
  }
}

bool FormulaBounds::are_free_of(int first) const {
  FormulaRow row{words + 3};
  for (int i = words[0] + words[1]; i > 0; --i, row = {row.end() + 1}) {
    for (int k = 0; k < row.terms(); ++k) {
      if (row.column(k) >= first) return false;
    }
  }
  return true;
}

bool FormulaProgram::read(const WordList& words, int inputs) {
  Reader in{words.data(), words.data() + std::max(words.size, 0)};
  kind = static_cast<FormulaKind>(in.number(3));
  sizes = in.number(kMostFormulaSizes + 1);
  rank = in.number(kMaxRank + 1);
  for (int i = 0; i < rank && in.ok; ++i) shape[i] = in.row(sizes);
  pieces = in.number(kMostFormulaPieces + 1);
  first_ = in.at;
  end_ = in.end;
  FormulaPiece piece;
  for (int i = 0; i < pieces && in.ok; ++i) read_piece(in, sizes, rank, inputs, &piece);
  return in.ok && in.at == in.end;
}

void FormulaProgram::piece(const int32_t** at, FormulaPiece* piece) const {
  Reader in{*at, end_};
  read_piece(in, sizes, rank, INT32_MAX, piece);
  *at = in.at;
}

bool FormulaProgram::fits(const Call<formula_attrs>& call) const {
  if (call.attrs.sizes.size != sizes || call.y().rank() != rank) return false;
  Ranges ranges;
  for (int i = 0; i < sizes; ++i) {
    if (call.attrs.sizes[i] < 0) return false;
    ranges.low[i] = ranges.high[i] = call.attrs.sizes[i];
  }
  for (int i = 0; i < rank; ++i) {
    if (shape[i].at(ranges.low) != call.y().dim(i)) return false;
  }
  const int32_t* at = first_;
  for (int i = 0; i < pieces; ++i) {
    FormulaPiece next;
    piece(&at, &next);
    double points = 1, explained = elements_of(call.y().shape), largest = explained;
    if (!find_ranges(next, sizes, &ranges, &points)) return false;
    if (!(ranges.reach(next.out, call.y().shape) < kLargestOffset)) return false;
    for (int k = 0; k < next.loads; ++k) {
      const FormulaLoad& load = next.load[k];
      if (load.input < 0) continue;
      const Ints& from = call.in[load.input].shape;
      if (load.rank != from.size || !(ranges.reach(load.rows, from) < kLargestOffset)) return false;
      explained *= elements_of(from);
      largest = std::max(largest, elements_of(from));
    }
    if (points > std::min(std::max(explained, kFreeWork * largest), kMostWork)) return false;
  }
  return true;
}

void FormulaForm::set(const FormulaRow* rows, const Ints& shape, const int64_t* sizes, int count) {
  const Strides stride = strides_of(shape);
  base = 0;
  std::fill_n(steps, kMostFormulaLoops, 0);
  for (int axis = 0; axis < shape.size; ++axis) {
    base += stride[axis] * rows[axis].words[0];
    for (int i = 0; i < rows[axis].terms(); ++i) {
      const int loop = rows[axis].column(i) - count;
      const int64_t step = stride[axis] * rows[axis].factor(i);
      if (loop < 0) base += step * sizes[rows[axis].column(i)];
      if (loop >= 0) steps[loop] += step;
    }
  }
}

}  // namespace lite
