#include <utility>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

// The best k of a row, kept in the results themselves as a heap whose first element is the worst of them.
template <typename T>
struct Best {
  T* values;
  int32_t* places;
  int64_t stride;
  bool largest;

  // Whether a at place i comes before b at place j. What is not a number is larger than any number.
  bool before(T a, int32_t i, T b, int32_t j) const {
    if (a != a || b != b) return (a != a) == (b != b) ? i < j : (a != a) == largest;
    return a == b ? i < j : (a > b) == largest;
  }
  bool before(int i, int j) const {
    return before(values[i * stride], places[i * stride], values[j * stride], places[j * stride]);
  }
  void set(int i, T value, int32_t place) const {
    values[i * stride] = value;
    places[i * stride] = place;
  }
  void swap(int i, int j) const {
    std::swap(values[i * stride], values[j * stride]);
    std::swap(places[i * stride], places[j * stride]);
  }
  // Puts element i of a heap of n in its place below.
  void sink(int i, int n) const {
    for (int child = 2 * i + 1; child < n; i = child, child = 2 * i + 1) {
      if (child + 1 < n && before(child, child + 1)) ++child;
      if (!before(i, child)) return;
      swap(i, child);
    }
  }
};

template <typename T>
Status topk_of(const Call<topk_attrs>& call) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis, k = call.attrs.k, size = x.shape[axis];
  const int64_t outer = product(x.shape, 0, axis), inner = product(x.shape, axis + 1, x.rank());
  if (k == 0) return Status::kOk;
  for (int64_t i = 0; i < outer * inner; ++i) {
    const T* row = x.as<T>() + i / inner * size * inner + i % inner;
    const int64_t to = i / inner * k * inner + i % inner;
    const Best<T> best = {call.out[0].as<T>() + to, call.out[1].i32() + to, inner, call.attrs.largest != 0};
    for (int j = 0; j < k; ++j) best.set(j, row[j * inner], j);
    for (int j = k / 2; j-- > 0;) best.sink(j, k);
    for (int j = k; j < size; ++j) {
      if (!best.before(row[j * inner], j, best.values[0], best.places[0])) continue;
      best.set(0, row[j * inner], j);
      best.sink(0, k);
    }
    for (int n = k - 1; n > 0; --n) {
      best.swap(0, n);
      best.sink(0, n);
    }
  }
  return Status::kOk;
}

}  // namespace

CHECK(topk) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis, k = call.attrs.k;
  if (call.inputs != 1 || !is_axis(axis, x) || k < 0 || k > x.shape[axis]) return false;
  Ints want = x.shape;
  want.data[axis] = k;
  return call.out[0].shape == want && call.out[1].shape == want && call.out[0].dtype == x.dtype &&
         call.out[1].dtype == DType::i32;
}
KERNEL(topk, f32, ref) { return topk_of<float>(call); }
KERNEL(topk, i32, ref) { return topk_of<int32_t>(call); }
KERNEL(topk, i64, ref) { return topk_of<int64_t>(call); }

}  // namespace lite
