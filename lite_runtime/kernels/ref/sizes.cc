// Sizes as data, data that become sizes, and what takes its places from data.

#include <algorithm>
#include <cmath>

#include "kernels/kernels.h"
#include "kernels/ref/checks.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

bool same_tensor(const Tensor& a, const Tensor& b) { return a.dtype == b.dtype && a.shape == b.shape; }

}  // namespace

CHECK(after) { return call.inputs >= 1 && same_tensor(call.in[0], call.y()); }
KERNEL(after, any, ref) { return copy_all(call); }

CHECK(sizes) { return call.inputs == 0 && call.y().dtype == DType::i32 && is_vector(call.y(), call.attrs.of.size); }
KERNEL(sizes, any, ref) {
  std::copy(call.attrs.of.begin(), call.attrs.of.end(), call.y().i32());
  return Status::kOk;
}

CHECK(iota) { return call.inputs == 0 && call.y().dtype == DType::i32 && is_vector(call.y(), call.attrs.size); }
KERNEL(iota, any, ref) {
  for (int32_t i = 0; i < call.attrs.size; ++i) call.y().i32()[i] = i;
  return Status::kOk;
}

CHECK(reshape_sizes) {
  return has_inputs(call, 1, 1, DType::i32) && call.in[0].rank() == 1 && same_tensor(call.in[0], call.y());
}
KERNEL(reshape_sizes, i32, ref) {
  const int32_t* n = call.in[0].i32();
  int32_t* y = call.y().i32();
  const int rank = call.y().dim(0);
  int rest = -1;
  int64_t whole = 1, rows = 1;
  for (int i = 0; i < rank; ++i) {
    const bool kept = n[i] == 0 && !call.attrs.allow_zero;
    if (n[i] < -1 || (kept && i >= call.attrs.old.size) || (n[i] == -1 && rest >= 0)) return Status::kBadArgument;
    if (n[i] == -1) rest = i;
    y[i] = kept ? call.attrs.old[i] : n[i];
    if (n[i] != -1 && __builtin_mul_overflow(rows, static_cast<int64_t>(y[i]), &rows)) return Status::kBadArgument;
  }
  for (int32_t size : call.attrs.old) {
    if (__builtin_mul_overflow(whole, static_cast<int64_t>(size), &whole)) return Status::kBadArgument;
  }
  if (rest >= 0) y[rest] = static_cast<int32_t>(std::min<int64_t>(rows > 0 ? whole / rows : 0, INT32_MAX));
  return Status::kOk;
}

CHECK(range_size) {
  const DType type = call.inputs == 3 ? call.in[0].dtype : DType::none;
  if (type != DType::i32 && type != DType::i64 && type != DType::f32) return false;
  for (int i = 0; i < 3; ++i) {
    if (call.in[i].dtype != type || call.in[i].rank() != 0) return false;
  }
  return call.y().dtype == DType::i32 && is_vector(call.y(), 1);
}

namespace {

// How many steps there are from one number up to another, which is more; exact for all of 64 bits.
uint64_t steps_up(int64_t from, int64_t to, uint64_t step) {
  return (static_cast<uint64_t>(to) - static_cast<uint64_t>(from) - 1) / step + 1;
}

template <typename T, typename Call>
Status integer_range_size(const Call& call) {
  const int64_t start = *call.in[0].template as<T>(), limit = *call.in[1].template as<T>();
  const int64_t delta = *call.in[2].template as<T>();
  if (delta == 0) return Status::kBadArgument;
  uint64_t n = 0;
  if (delta > 0 && start < limit) n = steps_up(start, limit, static_cast<uint64_t>(delta));
  if (delta < 0 && limit < start) n = steps_up(limit, start, 0 - static_cast<uint64_t>(delta));
  if (n > INT32_MAX) return Status::kBadArgument;
  *call.y().i32() = static_cast<int32_t>(n);
  return Status::kOk;
}

}  // namespace

KERNEL(range_size, i32, ref) { return integer_range_size<int32_t>(call); }
KERNEL(range_size, i64, ref) { return integer_range_size<int64_t>(call); }
KERNEL(range_size, f32, ref) {
  const double start = *call.in[0].f32(), limit = *call.in[1].f32();
  const double n = std::ceil((limit - start) / *call.in[2].f32());
  if (!(std::fabs(n) <= INT32_MAX)) return Status::kBadArgument;
  *call.y().i32() = static_cast<int32_t>(std::max(n, 0.0));
  return Status::kOk;
}

CHECK(slice_bounds) {
  if (!has_inputs(call, 2, 4, DType::i32, 3) || call.in[0].rank() != 1) return false;
  for (int i = 1; i < call.inputs; ++i) {
    if (call.in[i].present() && call.in[i].shape != call.in[0].shape) return false;
  }
  for (int i = 0; i < 3; ++i) {
    if (!is_vector(call.out[i], call.attrs.of.size)) return false;
  }
  return true;
}
KERNEL(slice_bounds, i32, ref) {
  const Ints& of = call.attrs.of;
  const Tensor *axes = call.optional(2), *steps = call.optional(3);
  for (int i = 0; i < of.size; ++i) {
    call.out[0].i32()[i] = 0;
    call.out[1].i32()[i] = 1;
    call.out[2].i32()[i] = of[i];
  }
  for (int k = 0; k < call.in[0].dim(0); ++k) {
    int64_t axis = axes != nullptr ? axes->i32()[k] : k;
    axis += axis < 0 ? of.size : 0;
    const int64_t step = steps != nullptr ? steps->i32()[k] : 1;
    if (axis < 0 || axis >= of.size || step == 0) return Status::kBadIndex;
    const int64_t n = of[static_cast<int>(axis)], low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t a = call.in[0].i32()[k], b = call.in[1].i32()[k];
    a = std::min(std::max(a < 0 ? a + n : a, low), high);
    b = std::min(std::max(b < 0 ? b + n : b, low), high);
    const int64_t length = step > 0 ? b - a : a - b, stride = step > 0 ? step : -step;
    const int64_t size = length > 0 ? (length + stride - 1) / stride : 0;
    call.out[0].i32()[axis] = static_cast<int32_t>(size > 0 ? a : 0);
    call.out[1].i32()[axis] = static_cast<int32_t>(step);
    call.out[2].i32()[axis] = static_cast<int32_t>(size);
  }
  return Status::kOk;
}

namespace {

// The walk from the elements of `part` to those of `whole` that begin and step choose; false: some lie outside.
bool walk_at(const Tensor* in, const Ints& whole, const Ints& part, Walk* walk, int64_t* at) {
  const Strides from = strides_of(part), to = strides_of(whole);
  for (int i = 0; i < whole.size; ++i) {
    const int64_t begin = in[1].i32()[i], step = in[2].i32()[i], end = begin + (part[i] - 1) * step;
    if (part[i] > 0 && (std::min(begin, end) < 0 || std::max(begin, end) >= whole[i])) return false;
    *at += begin * to[i];
    walk->add(part[i], from[i], step * to[i]);
  }
  return true;
}

template <typename Call>
bool is_at(const Call& call) {
  const Tensor& y = call.y();
  const int rank = y.rank();
  return call.inputs == 3 && call.in[0].dtype == y.dtype && call.in[0].rank() == rank && y.shape == call.attrs.shape &&
         call.in[1].dtype == DType::i32 && is_vector(call.in[1], rank) && call.in[2].dtype == DType::i32 &&
         is_vector(call.in[2], rank);
}

}  // namespace

CHECK(slice_at) { return is_at(call); }
KERNEL(slice_at, any, ref) {
  Walk walk;
  int64_t at = 0;
  if (!walk_at(call.in, call.in[0].shape, call.y().shape, &walk, &at)) return Status::kBadIndex;
  std::swap(walk.from, walk.to);
  if (call.y().elements() > 0) move(walk, call.in[0], at, call.y(), 0);
  return Status::kOk;
}

CHECK(slice_at_dx) { return is_at(call); }
KERNEL(slice_at_dx, any, ref) {
  Walk walk;
  int64_t at = 0;
  if (!walk_at(call.in, call.y().shape, call.in[0].shape, &walk, &at)) return Status::kBadIndex;
  if (call.y().size_bytes() > 0) std::memset(call.y().data, 0, call.y().size_bytes());
  if (call.in[0].elements() > 0) move(walk, call.in[0], 0, call.y(), at);
  return Status::kOk;
}

CHECK(put_row) {
  const Tensor &x = call.in[0], &y = call.y();
  if (call.inputs != 3 || !same_tensor(x, y) || x.rank() == 0 || call.in[1].dtype != DType::i32 ||
      call.in[1].rank() != 0 || call.in[2].dtype != x.dtype || call.in[2].rank() != x.rank() - 1) {
    return false;
  }
  return std::equal(x.shape.begin() + 1, x.shape.end(), call.in[2].shape.begin());
}
KERNEL(put_row, any, ref) {
  const int64_t i = *call.in[1].i32();
  if (i < 0 || i >= call.y().dim(0)) return Status::kBadIndex;
  const size_t size = call.in[2].size_bytes();
  copy_all(call);
  if (size > 0) std::memcpy(call.y().as<char>() + static_cast<size_t>(i) * size, call.in[2].data, size);
  return Status::kOk;
}

CHECK(fit_shape) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && call.y().shape == call.attrs.shape &&
         call.in[0].elements() == call.y().elements();
}
KERNEL(fit_shape, any, ref) { return copy_all(call); }

CHECK(same_shape) {
  return call.inputs == 1 && same_tensor(call.in[0], call.y()) && call.y().shape == call.attrs.shape;
}
KERNEL(same_shape, any, ref) { return copy_all(call); }

namespace {

// The walk over all of `wide` beside the elements of `x` that the numpy rule pairs with them.
Walk stretched(const Ints& x, const Ints& wide) {
  const Strides from = strides_of(x), to = strides_of(wide);
  const int extra = wide.size - x.size;
  Walk walk;
  for (int i = 0; i < wide.size; ++i) {
    const bool is_one = i < extra || x[i - extra] == 1;
    walk.add(wide[i], is_one ? 0 : from[i - extra], to[i]);
  }
  return walk;
}

}  // namespace

CHECK(stretch_to) {
  return call.inputs == 1 && call.in[0].dtype == call.y().dtype && call.y().shape == call.attrs.shape &&
         stretches_to(call.in[0].shape, call.y().shape);
}
KERNEL(stretch_to, any, ref) {
  if (call.y().elements() > 0) move(stretched(call.in[0].shape, call.y().shape), call.in[0], 0, call.y(), 0);
  return Status::kOk;
}

CHECK(sum_to) {
  return has_inputs(call, 1, 1) && call.y().shape == call.attrs.shape && stretches_to(call.y().shape, call.in[0].shape);
}
KERNEL(sum_to, f32, ref) {
  float* y = call.y().f32();
  const float* g = call.in[0].f32();
  if (call.y().size_bytes() > 0) std::memset(y, 0, call.y().size_bytes());
  if (call.in[0].elements() == 0) return Status::kOk;
  for_each(stretched(call.y().shape, call.in[0].shape), [=](int64_t to, int64_t from) { y[to] += g[from]; });
  return Status::kOk;
}

}  // namespace lite
