#include "kernels/formula.h"

#include "kernels/formula_loops.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/fused_tiles.h"

namespace lite {
namespace {

// What a value and what is there already come to; what is not a number stays.
float meet(FormulaKind kind, float there, float value) {
  switch (kind) {
    case FormulaKind::sum:
      return there + value;
    case FormulaKind::max:
      return there > value || there != there ? there : value;
    case FormulaKind::min:
      return there < value || there != there ? there : value;
  }
  return value;
}

Status run_piece(const FormulaProgram& program, const FormulaPiece& piece, const Call<formula_attrs>& call) {
  int64_t sizes[kMostFormulaSizes];
  std::copy_n(call.attrs.sizes.begin(), program.sizes, sizes);
  FormulaForms forms;
  forms.set(program, piece, call, sizes);
  FormulaLoops loops(program, piece, forms, sizes);
  FusedTilesOfRef tiles(piece.body);
  const int lane = std::max(piece.loops - 1, 0);

  const auto element = [&](int load, int64_t offset) {
    return forms.elements[load] < 0 ? static_cast<float>(offset) : call.in[piece.load[load].input].f32()[offset];
  };
  Status status = Status::kOk;
  const auto some = [&](const int64_t* at, int64_t done, int n) {
    float plain[kTile];  // the values where there is no body
    if (piece.has_body) tiles.start(n);
    for (int i = 0; i < piece.loads; ++i) {
      for (int k = 0; k < n; ++k) plain[k] = element(i, at[i] + (done + k) * forms.form[i].steps[lane]);
      if (piece.has_body) std::memcpy(tiles.input(i).elements, plain, sizeof plain[0] * static_cast<size_t>(n));
    }
    if (piece.has_body) status = tiles.run();
    const float* values = piece.has_body ? tiles.result(0).f32() : plain;
    for (int k = 0; k < n; ++k) {
      float* y = call.y().f32() + at[piece.loads] + (done + k) * forms.form[piece.loads].steps[lane];
      *y = meet(program.kind, *y, values[k]);
    }
  };
  const auto rows = [&](const int64_t* from, int n, int64_t turns, int loop) {
    for (int64_t turn = 0; turn < turns; ++turn) {
      int64_t at[kMostFusedInputs + 1];
      for (int i = 0; i <= piece.loads; ++i) at[i] = from[i] + turn * forms.form[i].steps[loop];
      for (int done = 0; done < n && status == Status::kOk; done += kTile) some(at, done, std::min(kTile, n - done));
    }
  };
  for (int64_t i = 0; i < loops.items(); ++i) {
    if (!loops.run(i, rows)) return Status::kBadFile;
    LITE_TRY(status);
  }
  return Status::kOk;
}

}  // namespace

CHECK(formula) {
  if (call.inputs < 1 || !has_inputs(call, call.inputs, call.inputs)) return false;
  FormulaProgram program;
  return program.read(call.attrs.program, call.inputs) && program.fits(call);
}

KERNEL(formula, f32, ref) {
  FormulaProgram program;
  program.read(call.attrs.program, call.inputs);
  std::fill_n(call.y().f32(), call.y().elements(), start_of(program.kind));
  const int32_t* at = program.first();
  for (int i = 0; i < program.pieces; ++i) {
    FormulaPiece piece;
    program.piece(&at, &piece);
    LITE_TRY(run_piece(program, piece, call));
  }
  return Status::kOk;
}

}  // namespace lite
