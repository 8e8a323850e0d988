#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

// Whether `parts` is `whole` with axis `axis` replaced by the axes of the indices.
bool indexes(const Tensor& whole, const Tensor& indices, const Tensor& parts, int axis) {
  if (!is_axis(axis, whole) || indices.dtype != DType::i32 || whole.dtype != parts.dtype) return false;
  if (whole.rank() - 1 + indices.rank() > kMaxRank) return false;
  Ints want;
  for (int i = 0; i < axis; ++i) want.data[want.size++] = whole.shape[i];
  for (int size : indices.shape) want.data[want.size++] = size;
  for (int i = axis + 1; i < whole.rank(); ++i) want.data[want.size++] = whole.shape[i];
  return parts.shape == want;
}

// f(where a part starts in `whole`, where it starts in the tensor of parts, its length) for each part
template <typename F>
Status for_each_part(const Tensor& whole, const Tensor& indices, int axis, F f) {
  const int64_t outer = product(whole.shape, 0, axis), size = whole.shape[axis];
  const int64_t inner = product(whole.shape, axis + 1, whole.rank()), n = indices.elements();
  for (int64_t i = 0; i < n; ++i) {
    if (indices.i32()[i] < 0 || indices.i32()[i] >= size) return Status::kBadIndex;
  }
  if (inner == 0) return Status::kOk;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < n; ++i) f((o * size + indices.i32()[i]) * inner, (o * n + i) * inner, inner);
  }
  return Status::kOk;
}

}  // namespace

CHECK(gather) { return call.inputs == 2 && indexes(call.in[0], call.in[1], call.y(), call.attrs.axis); }
KERNEL(gather, any, ref) {
  const size_t size = size_of(call.y().dtype);
  const char* x = call.in[0].as<char>();
  char* y = call.y().as<char>();
  return for_each_part(call.in[0], call.in[1], call.attrs.axis, [=](int64_t whole, int64_t part, int64_t n) {
    std::memcpy(y + part * size, x + whole * size, n * size);
  });
}

CHECK(scatter_add) {
  return call.inputs == 2 && indexes(call.y(), call.in[1], call.in[0], call.attrs.axis) &&
         call.y().shape[call.attrs.axis] == call.attrs.size;
}
KERNEL(scatter_add, f32, ref) {
  const float* g = call.in[0].f32();
  float* y = call.y().f32();
  const int64_t total = call.y().elements();
  for (int64_t i = 0; i < total; ++i) y[i] = 0;
  return for_each_part(call.y(), call.in[1], call.attrs.axis, [=](int64_t whole, int64_t part, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[whole + i] += g[part + i];
  });
}

CHECK(one_hot) {
  Ints want = call.in[0].shape;
  if (want.size == kMaxRank) return false;
  want.data[want.size++] = call.attrs.depth;
  return call.inputs == 1 && call.in[0].dtype == DType::i32 && call.y().dtype == DType::f32 && call.y().shape == want;
}
KERNEL(one_hot, i32, ref) {
  const int64_t n = call.in[0].elements();
  float* y = call.y().f32();
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < call.attrs.depth; ++k) *y++ = k == call.in[0].i32()[i] ? call.attrs.on : call.attrs.off;
  }
  return Status::kOk;
}

CHECK(bitcast) {
  return call.inputs == 1 && same_shape(call.in[0], call.y()) && size_of(call.in[0].dtype) == size_of(call.y().dtype) &&
         call.in[0].present() && call.y().dtype != DType::boolean && call.y().dtype != DType::tape &&
         static_cast<int>(call.attrs.to) + 1 == static_cast<int>(call.y().dtype);
}
KERNEL(bitcast, any, ref) { return copy_all(call); }

}  // namespace lite
