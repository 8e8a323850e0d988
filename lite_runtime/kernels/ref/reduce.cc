#include <algorithm>
#include <limits>

#include "kernels/kernels.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

template <typename Attrs>
bool check_reduction(const Call<Attrs>& call) {
  bool reduced[kMaxRank] = {};
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype &&
         reduces_to(call.in[0], call.attrs.axes, call.attrs.keep_dims, call.y(), reduced);
}

// y = finish(f(... f(f(start, x0), x1) ...), number of elements) over the reduced axes
template <typename T, typename Total, typename Attrs, typename F, typename Finish>
Status reduce(const Call<Attrs>& call, Total start, F f, Finish finish) {
  const Tensor& x = call.in[0];
  Walk kept, dropped;
  split_axes(x, call.attrs.axes, &kept, &dropped);
  int64_t n = 1;
  for (int axis : call.attrs.axes) n *= x.shape[axis];
  T* y = call.y().template as<T>();
  for_each(kept, [&](int64_t base, int64_t) {
    Total total = start;
    for_each(dropped, [&](int64_t offset, int64_t) { total = f(total, x.as<T>()[base + offset]); });
    *y++ = static_cast<T>(finish(total, n));
  });
  return Status::kOk;
}

template <typename T, typename Total, typename Attrs, typename F>
Status reduce(const Call<Attrs>& call, Total start, F f) {
  return reduce<T>(call, start, f, [](Total total, int64_t) { return total; });
}

double plus(double total, double x) { return total + x; }

template <typename T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}

template <typename T>
T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Those of integers wrap around: hence unsigned.
template <typename T>
T sum(T total, T x) {
  return static_cast<T>(total + x);
}

template <typename T>
T times(T total, T x) {
  return static_cast<T>(total * x);
}

}  // namespace

CHECK(reduce_sum) { return check_reduction(call); }
KERNEL(reduce_sum, f32, ref) { return reduce<float>(call, 0.0, plus); }
KERNEL(reduce_sum, i32, ref) { return reduce<uint32_t>(call, 0u, sum<uint32_t>); }
KERNEL(reduce_sum, i64, ref) { return reduce<uint64_t>(call, uint64_t{0}, sum<uint64_t>); }

CHECK(reduce_mean) { return check_reduction(call); }
KERNEL(reduce_mean, f32, ref) {
  return reduce<float>(call, 0.0, plus, [](double total, int64_t n) { return total / static_cast<double>(n); });
}

CHECK(reduce_max) { return check_reduction(call); }
KERNEL(reduce_max, f32, ref) { return reduce<float>(call, -kInfinity, larger<float>); }
KERNEL(reduce_max, i32, ref) { return reduce<int32_t>(call, std::numeric_limits<int32_t>::min(), larger<int32_t>); }
KERNEL(reduce_max, i64, ref) { return reduce<int64_t>(call, std::numeric_limits<int64_t>::min(), larger<int64_t>); }

CHECK(reduce_min) { return check_reduction(call); }
KERNEL(reduce_min, f32, ref) { return reduce<float>(call, kInfinity, smaller<float>); }
KERNEL(reduce_min, i32, ref) { return reduce<int32_t>(call, std::numeric_limits<int32_t>::max(), smaller<int32_t>); }
KERNEL(reduce_min, i64, ref) { return reduce<int64_t>(call, std::numeric_limits<int64_t>::max(), smaller<int64_t>); }

CHECK(reduce_prod) { return check_reduction(call); }
KERNEL(reduce_prod, f32, ref) {
  return reduce<float>(call, 1.0, [](double total, float x) { return total * x; });
}
KERNEL(reduce_prod, i32, ref) { return reduce<uint32_t>(call, 1u, times<uint32_t>); }
KERNEL(reduce_prod, i64, ref) { return reduce<uint64_t>(call, uint64_t{1}, times<uint64_t>); }

namespace {

template <typename Attrs>
bool check_place(const Call<Attrs>& call) {
  const Tensor &x = call.in[0], &y = call.y();
  bool reduced[kMaxRank] = {};
  return call.inputs == 1 && y.dtype == DType::i32 &&
         reduces_to(x, {1, {call.attrs.axis}}, call.attrs.keep_dims, y, reduced) &&
         (x.shape[call.attrs.axis] > 0 || y.elements() == 0);
}

// y = the first place along the axis that none `beats`; what is not a number beats every number
template <typename T, typename Attrs, typename F>
Status place(const Call<Attrs>& call, F beats) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis;
  const int64_t outer = product(x.shape, 0, axis), inner = product(x.shape, axis + 1, x.rank());
  const int size = x.shape[axis];
  int32_t* y = call.y().i32();
  for (int64_t i = 0; i < outer * inner; ++i) {
    const T* row = x.as<T>() + i / inner * size * inner + i % inner;
    int best = 0;
    for (int k = 1; k < size; ++k) {
      const T a = row[k * inner], b = row[best * inner];
      if (b == b && (a != a || beats(a, b))) best = k;
    }
    y[i] = best;
  }
  return Status::kOk;
}

}  // namespace

#define PLACE(op, sign)                                                         \
  CHECK(op) { return check_place(call); }                                       \
  KERNEL(op, f32, ref) {                                                        \
    return place<float>(call, [](float a, float b) { return a sign b; });       \
  }                                                                             \
  KERNEL(op, i32, ref) {                                                        \
    return place<int32_t>(call, [](int32_t a, int32_t b) { return a sign b; }); \
  }                                                                             \
  KERNEL(op, i64, ref) {                                                        \
    return place<int64_t>(call, [](int64_t a, int64_t b) { return a sign b; }); \
  }

PLACE(argmax, >)
PLACE(argmin, <)

CHECK(count) {
  for (int axis : call.attrs.axes) {
    if (!is_axis(axis, call.in[0])) return false;
  }
  return call.inputs == 1 && call.y().dtype == DType::f32 && call.y().rank() == 0;
}
KERNEL(count, any, ref) {
  double n = 1;
  for (int axis : call.attrs.axes) n *= call.in[0].dim(axis);
  *call.y().f32() = static_cast<float>(n);
  return Status::kOk;
}

namespace {

// y = the running results of f along the axis, from `start` on
template <typename T, typename Total, typename Attrs, typename F>
Status running(const Call<Attrs>& call, Total start, F f) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis, size = x.shape[axis];
  const int64_t outer = product(x.shape, 0, axis), inner = product(x.shape, axis + 1, x.rank());
  for (int64_t i = 0; i < outer * inner; ++i) {
    const int64_t row = i / inner * size * inner + i % inner;
    Total total = start;
    for (int k = 0; k < size; ++k) {
      const int64_t at = row + (call.attrs.reverse ? size - 1 - k : k) * inner;
      const Total next = f(total, x.as<T>()[at]);
      call.y().template as<T>()[at] = static_cast<T>(call.attrs.exclusive ? total : next);
      total = next;
    }
  }
  return Status::kOk;
}

}  // namespace

CHECK(cumsum) { return check_same(call) && is_axis(call.attrs.axis, call.in[0]); }
KERNEL(cumsum, f32, ref) { return running<float>(call, 0.0, plus); }
KERNEL(cumsum, i32, ref) { return running<uint32_t>(call, 0u, sum<uint32_t>); }
KERNEL(cumsum, i64, ref) { return running<uint64_t>(call, uint64_t{0}, sum<uint64_t>); }

CHECK(cumprod) { return check_same(call) && is_axis(call.attrs.axis, call.in[0]); }
KERNEL(cumprod, f32, ref) { return running<float>(call, 1.0, times<double>); }
KERNEL(cumprod, i32, ref) { return running<uint32_t>(call, 1u, times<uint32_t>); }
KERNEL(cumprod, i64, ref) { return running<uint64_t>(call, uint64_t{1}, times<uint64_t>); }

}  // namespace lite
