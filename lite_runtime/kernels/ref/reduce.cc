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
constexpr int32_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();

}  // namespace

CHECK(reduce_sum) { return check_reduction(call); }
KERNEL(reduce_sum, f32, ref) { return reduce<float>(call, 0.0, plus); }
KERNEL(reduce_sum, i32, ref) {
  return reduce<int32_t>(call, 0u, [](uint32_t total, int32_t x) { return total + static_cast<uint32_t>(x); });
}

CHECK(reduce_mean) { return check_reduction(call); }
KERNEL(reduce_mean, f32, ref) {
  return reduce<float>(call, 0.0, plus, [](double total, int64_t n) { return total / static_cast<double>(n); });
}

CHECK(reduce_max) { return check_reduction(call); }
KERNEL(reduce_max, f32, ref) { return reduce<float>(call, -kInfinity, larger<float>); }
KERNEL(reduce_max, i32, ref) { return reduce<int32_t>(call, kLeast, larger<int32_t>); }

CHECK(reduce_min) { return check_reduction(call); }
KERNEL(reduce_min, f32, ref) { return reduce<float>(call, kInfinity, smaller<float>); }
KERNEL(reduce_min, i32, ref) { return reduce<int32_t>(call, kMost, smaller<int32_t>); }

CHECK(reduce_prod) { return check_reduction(call); }
KERNEL(reduce_prod, f32, ref) {
  return reduce<float>(call, 1.0, [](double total, float x) { return total * x; });
}

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
template <typename Attrs, typename F>
Status place(const Call<Attrs>& call, F beats) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis;
  const int64_t outer = product(x.shape, 0, axis), inner = product(x.shape, axis + 1, x.rank());
  const int size = x.shape[axis];
  int32_t* y = call.y().i32();
  for (int64_t i = 0; i < outer * inner; ++i) {
    const float* row = x.f32() + i / inner * size * inner + i % inner;
    int best = 0;
    for (int k = 1; k < size; ++k) {
      const float a = row[k * inner], b = row[best * inner];
      if (b == b && (a != a || beats(a, b))) best = k;
    }
    y[i] = best;
  }
  return Status::kOk;
}

}  // namespace

CHECK(argmax) { return check_place(call); }
KERNEL(argmax, f32, ref) {
  return place(call, [](float a, float b) { return a > b; });
}

CHECK(argmin) { return check_place(call); }
KERNEL(argmin, f32, ref) {
  return place(call, [](float a, float b) { return a < b; });
}

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

CHECK(cumsum) { return check_same(call) && is_axis(call.attrs.axis, call.in[0]); }
KERNEL(cumsum, f32, ref) {
  const Tensor& x = call.in[0];
  const int axis = call.attrs.axis, size = x.shape[axis];
  const int64_t outer = product(x.shape, 0, axis), inner = product(x.shape, axis + 1, x.rank());
  for (int64_t i = 0; i < outer * inner; ++i) {
    const int64_t row = i / inner * size * inner + i % inner;
    double total = 0;
    for (int k = 0; k < size; ++k) {
      const int64_t at = row + (call.attrs.reverse ? size - 1 - k : k) * inner;
      const float own = x.f32()[at];
      call.y().f32()[at] = static_cast<float>(call.attrs.exclusive ? total : total + own);
      total += own;
    }
  }
  return Status::kOk;
}

}  // namespace lite
