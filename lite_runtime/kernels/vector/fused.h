#pragma once

#include <algorithm>

#include "kernels/fused.h"
#include "kernels/kernels.h"
#include "kernels/ref/loops.h"
#include "kernels/vector/math.h"

// Programs of fused_elementwise for any instruction set: tile by tile, so that what is computed between inputs and
// results never leaves the nearest cache.

namespace lite {

constexpr int kFusedTile = 512;           // elements
constexpr int64_t kLeastFusedRow = 48;    // shorter rows are gathered in tiles, longer ones are tiles of their own
constexpr int64_t kFusedGrain = 1 << 13;  // of a thread's part

// How the elements of an input lie along those of the results.
struct FusedSource {
  enum Kind { dense, one, stretched } kind = dense;
  const Tensor* tensor = nullptr;
  Walk rows;             // of a stretched one: where each row starts
  int64_t row = 1;       // elements of a row
  bool repeats = false;  // one element over and over along a row

  void set(const Tensor& x, const Tensor& y) {
    tensor = &x;
    if (x.elements() == 1) {
      kind = one;
    } else if (x.elements() == y.elements()) {
      kind = dense;
    } else {
      kind = stretched;
      find_rows(x, y);
    }
  }

 private:
  void find_rows(const Tensor& x, const Tensor& y) {
    for (int i = 0; i < y.rank(); ++i) {
      const int own = i - (y.rank() - x.rank());
      const bool still = own < 0 || x.shape[own] == 1;
      rows.add(y.shape[i], still ? 0 : product(x.shape, own + 1, x.rank()), product(y.shape, i + 1, y.rank()));
    }
    const int last = rows.rank - 1;
    row = rows.size[last];
    repeats = rows.from[last] == 0;
    rows.rank = last;
  }
};

// The length of parts of the result that lie in one row of every stretched input; 1: there are none, or they are short.
inline int64_t common_row(const FusedSource* sources, int count, int64_t total) {
  int64_t row = total;
  for (int i = 0; i < count; ++i) {
    if (sources[i].kind == FusedSource::stretched) row = std::min(row, sources[i].row);
  }
  if (row == total || row < kLeastFusedRow) return 1;
  for (int i = 0; i < count; ++i) {
    if (sources[i].kind == FusedSource::stretched && sources[i].row % row != 0) return 1;
  }
  return row;
}

// Where the elements of a program's operands are at the moment.
struct FusedOperands {
  float* elements[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters];
  int first_register = 0;
};

// One instruction on n elements; <isa>/fused.cc has it.
template <class Isa>
void run_instruction(const FusedInstruction& next, const FusedOperands& operands, int n);

// What one thread works on.
template <class Isa>
class FusedTiles : public FusedOperands {
 public:
  FusedTiles(const FusedProgram& program, const FusedSource* sources, Tensor* out)
      : program_(program), sources_(sources), out_(out) {
    first_register = program.first_register();
    for (int i = 0; i < program.inputs; ++i) {
      elements[i] = tiles_[i];
      if (sources[i].kind == FusedSource::one) fill(tiles_[i], *sources[i].tensor, 0, kFusedTile);
    }
    for (int i = 0; i < program.constants; ++i) {
      float value;
      std::memcpy(&value, program.constant + i, sizeof value);
      elements[program.inputs + i] = tiles_[program.inputs + i];
      std::fill_n(tiles_[program.inputs + i], kFusedTile, value);
    }
    for (int i = program.first_register(); i < program.operands(); ++i) elements[i] = tiles_[i];
  }

  // Makes elements [begin, begin + n) of the inputs ready; results that are floats are written where they belong.
  void start(int64_t begin, int n) {
    for (int i = 0; i < program_.inputs; ++i) {
      const FusedSource& source = sources_[i];
      if (source.kind == FusedSource::dense) {
        show(i, source, begin, n);
      } else if (source.kind == FusedSource::stretched) {
        const int64_t inside = begin % source.row;
        if (inside + n > source.row) {
          stretch(i, source, begin, n);
          continue;
        }
        const Place place(source.rows, begin / source.row);
        if (!source.repeats) show(i, source, place.from + inside, n);
        if (source.repeats) fill(elements[i] = tiles_[i], *source.tensor, place.from, n);
      }
    }
    for (int i = 0; i < program_.results; ++i) {
      if (out_[i].dtype == DType::f32) elements[program_.first_register() + program_.result[i]] = out_[i].f32() + begin;
    }
  }
  // Writes the results that are truth values.
  void finish(int64_t begin, int n) {
    for (int i = 0; i < program_.results; ++i) {
      if (out_[i].dtype == DType::f32) continue;
      const float* from = elements[program_.first_register() + program_.result[i]];
      uint8_t* to = out_[i].template as<uint8_t>() + begin;
      over<Isa>(
          n, [&](int64_t k, int lanes) { Isa::store_truths(to + k, Isa::to_mask(Isa::load(from + k, lanes)), lanes); });
    }
  }

 private:
  // Elements of an input that lie behind each other: numbers where they are, truth values as lanes of ones or zeros.
  void show(int i, const FusedSource& source, int64_t from, int n) {
    if (source.tensor->dtype == DType::f32) {
      elements[i] = source.tensor->f32() + from;
      return;
    }
    const uint8_t* truths = source.tensor->template as<uint8_t>() + from;
    float* to = elements[i] = tiles_[i];
    over<Isa>(n, [=](int64_t k, int lanes) {
      Isa::store(to + k, Isa::to_lanes(Isa::load_truths(truths + k, lanes)), lanes);
    });
  }

  // One element, `n` times.
  static void fill(float* to, const Tensor& x, int64_t from, int64_t n) {
    const typename Isa::V value =
        x.dtype == DType::f32 ? Isa::all(x.f32()[from])
                              : Isa::to_lanes(Isa::load_truths(all_of(x.as<uint8_t>()[from]).bytes, Isa::kLanes));
    over<Isa>(n, [=](int64_t k, int lanes) { Isa::store(to + k, value, lanes); });
  }
  struct Truths {
    uint8_t bytes[Isa::kLanes];
  };
  static Truths all_of(uint8_t truth) {
    Truths truths;
    std::fill_n(truths.bytes, Isa::kLanes, truth);
    return truths;
  }

  // Elements of several rows.
  void stretch(int i, const FusedSource& source, int64_t begin, int n) {
    Place place(source.rows, begin / source.row);
    float* to = elements[i] = tiles_[i];
    int64_t inside = begin % source.row;
    for (int64_t done = 0; done < n; place.advance(source.rows), inside = 0) {
      const int64_t run = std::min(source.row - inside, n - done);
      if (source.repeats) {
        fill(to + done, *source.tensor, place.from, run);
      } else if (source.tensor->dtype == DType::f32) {
        const float* from = source.tensor->f32() + place.from + inside;
        over<Isa>(run, [=](int64_t k, int lanes) { Isa::store(to + done + k, Isa::load(from + k, lanes), lanes); });
      } else {
        for (int64_t k = 0; k < run; ++k) fill(to + done + k, *source.tensor, place.from + inside + k, 1);
      }
      done += run;
    }
  }

  const FusedProgram& program_;
  const FusedSource* sources_;
  Tensor* out_;
  alignas(64) float tiles_[kMostFusedInputs + kMostFusedConstants + kMostFusedRegisters][kFusedTile];
};

// Every instruction on every tile.
template <class Isa>
Status run_fused(const Call<fused_elementwise_attrs>& call) {
  FusedProgram program;
  if (!program.read(call.attrs.program.data(), call.attrs.program.size, call.inputs)) return Status::kBadArgument;
  const int64_t total = call.y().elements();
  if (total == 0) return Status::kOk;
  FusedSource sources[kMostFusedInputs];
  for (int i = 0; i < call.inputs; ++i) sources[i].set(call.in[i], call.y());
  const int64_t row = common_row(sources, call.inputs, total);
  parallel_for(call.context.pool, total / row, std::max<int64_t>(1, kFusedGrain / row),
               [&](int64_t begin, int64_t end) {
                 FusedTiles<Isa> tiles(program, sources, call.out);
                 const int64_t last = end * row;
                 for (int64_t at = begin * row, n; at < last; at += n) {
                   n = std::min<int64_t>(kFusedTile, last - at);
                   if (row > 1) n = std::min(n, row - at % row);
                   tiles.start(at, static_cast<int>(n));
                   for (int i = 0; i < program.count; ++i)
                     run_instruction<Isa>(program.instructions[i], tiles, static_cast<int>(n));
                   tiles.finish(at, static_cast<int>(n));
                 }
               });
  return Status::kOk;
}

}  // namespace lite
