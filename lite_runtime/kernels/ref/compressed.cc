#include "kernels/compressed.h"

#include "kernels/activation.h"
#include "kernels/kernels.h"
#include "kernels/ref/checks.h"

namespace lite {

CHECK(compressed_linear) {
  if (call.inputs < 2 || call.inputs > 4) return false;
  const Tensor &x = call.in[0], &w = call.in[1], &y = call.y();
  const Tensor* b = call.optional(3);
  return x.dtype == DType::f32 && y.dtype == DType::f32 && x.rank() >= 2 && stored_rows(call).fit() &&
         y.rank() == x.rank() && y.dim(-1) == w.dim(0) && rows_of(x) == rows_of(y) &&
         (b == nullptr || (b->dtype == DType::f32 && is_vector(*b, w.dim(0))));
}
KERNEL(compressed_linear, f32, ref) {
  const StoredRows w = stored_rows(call);
  const float *x = call.in[0].f32(), *b = call.optional(3) != nullptr ? call.optional(3)->f32() : nullptr;
  const int64_t rows = rows_of(call.in[0]), out = w.w.dim(0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < out; ++j) {
      float sum = b != nullptr ? b[j] : 0;
      for (int64_t k = 0; k < w.n; ++k) sum += x[i * w.n + k] * w.at(j, k);
      call.y().f32()[i * out + j] = activate(call.attrs.activation, sum);
    }
  }
  return Status::kOk;
}

CHECK(compressed_gather) {
  if (call.inputs < 2 || call.inputs > 3 || call.in[1].rank() >= kMaxRank) return false;
  Ints want = call.in[1].shape;
  want.data[want.size++] = call.attrs.size;
  return call.in[1].dtype == DType::i32 && call.y().dtype == DType::f32 && call.y().shape == want &&
         stored_rows(call).fit();
}
KERNEL(compressed_gather, any, ref) {
  const StoredRows w = stored_rows(call);
  const int32_t* at = call.in[1].i32();
  const int64_t count = call.in[1].elements();
  float* y = call.y().f32();
  for (int64_t i = 0; i < count; ++i) {
    if (at[i] < 0 || at[i] >= w.w.dim(0)) return Status::kBadIndex;
    for (int64_t k = 0; k < w.n; ++k) y[i * w.n + k] = w.at(at[i], k);
  }
  return Status::kOk;
}

CHECK(decompress) {
  if (call.inputs < 1 || call.inputs > 2 || call.in[0].rank() != 2 || call.y().dtype != DType::f32) return false;
  const int64_t rows = call.in[0].dim(0);
  return rows > 0 && call.y().shape == call.attrs.shape && call.y().elements() % rows == 0 && stored_rows(call).fit();
}
KERNEL(decompress, any, ref) {
  const StoredRows w = stored_rows(call);
  float* y = call.y().f32();
  for (int64_t row = 0; row < w.w.dim(0); ++row) {
    for (int64_t k = 0; k < w.n; ++k) *y++ = w.at(row, k);
  }
  return Status::kOk;
}

}  // namespace lite
